// Package route chooses executors: addresses and state in, choice and state out. It is pure: callers pass
// random numbers and stored state.
//
// A new route is one entry of the table in route.go, and its name in package core. If it depends on more
// than input has, add a field there and fill it in dispatch.
package route
