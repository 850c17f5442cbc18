// Package wire implements the messages between an xxl-job admin and its executors. The package encodes the admin's messages
// and decodes the executors' messages. The executor SDK and tests use the opposite directions, which it implements too. The
// package does no input or output, keeps no state, and imports only the standard library.
//
// # Dialects
//
// The protocol changed four times without a version number. The Go executor mixes two variants and is a fifth one. [Dialect]
// lists the variants. Each decoder returns the dialect if the message identifies it.
//
//	                    A 2.2            B 2.3-3.2    C 3.3-3.4    D 3.5            Go
//	payload of a reply  content          content      data         data             content
//	callback body       array            array        array        {callbackList}   array
//	callback result     executeResult    handleCode   handleCode   handleCode       both
//	time of callback    logDateTim       logDateTim   logDateTim   logDateTime      logDateTim
//	path of a run       /run             /run         /run         /trigger         /run
//	appname header      no               no           no           both ways        no
//
// Decoders accept all dialects. Encoders of the admin's messages write for every dialect: executors ignore unknown fields, so
// both spellings of a renamed field are sent.
//
// # Units
//
// Times are milliseconds since the Unix epoch. Timeouts are whole seconds. Log lines are counted from 1. Job numbers are int32
// and log IDs are int64, because xxl-job executors use these types. A log ID (logId) is the ID of a run.
package wire
