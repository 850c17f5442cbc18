// Package route chooses executors: addresses and state in, choice and state
// out. It is pure; what is random is handed in, and what is remembered is handed
// in and back.
//
// A new route is one entry of the table in route.go, and its name in package
// core; everything here reads the table. One that goes by more than input says needs
// a field of it, which dispatch fills.
package route
