// Package access decides who may do what, and stores the users, sessions and tokens that identify callers. API,
// console and CLI all check permissions with [Who.May]. The package knows no transport: callers pass it the
// secret of a request. It keeps only hashes of passwords, tokens and sessions.
package access
