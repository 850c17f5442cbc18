// Package access says who may do what, and knows the people, sessions and tokens that say
// who asks. Its rules stand in one function, [Who.May], which API, console and CLI alike
// ask. It knows no transport: whoever takes a request hands over the secret that came with
// it. It refuses to keep a secret that it could show: of passwords, tokens and sessions it
// has hashes.
package access
