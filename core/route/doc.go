// Package route chooses executors by the route of a job. Its functions have no state: callers pass addresses, random numbers
// and stored counts.
//
// To add a route, add an entry to the table in route.go and its name in package core. If the route needs more data, add a
// field to the type input and set it in package dispatch.
package route
