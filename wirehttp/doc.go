// Package wirehttp carries package wire over HTTP, in both directions: a
// handler for what executors send (registrations and callbacks), and a client
// for what is sent to executors.
//
// Both know the protocol's habits and nothing of tickring's state: the handler
// hands plain values to two small ports, and the client says of each call what
// is proven about it.
package wirehttp
