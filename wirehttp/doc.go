// Package wirehttp transports the messages of package wire over HTTP, in both directions. The package has a handler for
// requests from executors (registrations and callbacks), and a client for requests to executors.
//
// Handler and client implement only the protocol. The handler passes plain values to the interfaces Registry and Callbacks.
// The client returns a conclusion (Kind) for each call.
package wirehttp
