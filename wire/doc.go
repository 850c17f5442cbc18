// Package wire implements the messages between xxl-job's admin and executors: it encodes the admin's messages and decodes the
// executors' messages, and the other way round for the executor SDK and for tests. It does no input or output, keeps no state, and
// imports the standard library only.
//
// # Dialects
//
// The protocol changed four times without a version number; the Go executor is a fifth variant, a mixture. [Dialect] names them,
// and each decoder returns the one that it recognized, as far as possible.
//
//	                    A 2.2            B 2.3-3.2    C 3.3-3.4    D 3.5            Go
//	payload of a reply  content          content      data         data             content
//	callback body       array            array        array        {callbackList}   array
//	callback result     executeResult    handleCode   handleCode   handleCode       both
//	time of callback    logDateTim       logDateTim   logDateTim   logDateTime      logDateTim
//	path of a run       /run             /run         /run         /trigger         /run
//	appname header      no               no           no           both ways        no
//
// Decoders accept all dialects at any time. Encoders of the admin's messages write for every dialect: all of them ignore unknown
// fields, so both spellings of a renamed field are sent.
//
// # Units
//
// Times are milliseconds since the Unix epoch, timeouts whole seconds, lines of a log count from 1. Job numbers are int32 and log
// IDs int64, because the executors type them so.
package wire
