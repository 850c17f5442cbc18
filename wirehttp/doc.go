// Package wirehttp carries package wire over HTTP, in both directions: a handler for the executors' requests (registrations and
// callbacks), and a client for requests to executors.
//
// Both implement the protocol and know nothing of tickring's state: the handler passes plain values to two small ports, and the
// client returns the proven result of each call.
package wirehttp
