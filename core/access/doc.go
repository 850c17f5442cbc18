// Package access checks permissions, and stores the users, sessions and tokens that identify callers. The API, the
// console and the CLI check permissions with [Who.May]. The package is independent of HTTP: its functions receive the
// secret of a request. It stores passwords and the secrets of tokens and sessions only as hashes.
package access
