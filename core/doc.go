// Package core holds the nouns of tickring as plain Go, each with its
// validation. It has no interface, no context and no clock.
package core
