// Package wire knows the bytes that xxl-job's admin and executors exchange:
// it encodes what an admin sends, decodes what an executor sends, and the
// other way round for the executor SDK and for tests. It does no input or
// output, keeps no state, and imports the standard library only.
//
// # Dialects
//
// The protocol changed four times without carrying a version number; the Go
// executor is a fifth, a mixture. [Dialect] names them, and each decoder says
// which one it saw, as far as the bytes tell.
//
//	                    A 2.2            B 2.3-3.2    C 3.3-3.4    D 3.5            Go
//	payload of a reply  content          content      data         data             content
//	callback body       array            array        array        {callbackList}   array
//	callback result     executeResult    handleCode   handleCode   handleCode       both
//	time of callback    logDateTim       logDateTim   logDateTim   logDateTime      logDateTim
//	path of a run       /run             /run         /run         /trigger         /run
//	appname header      no               no           no           both ways        no
//
// Decoders accept all of them, whatever was seen before. Encoders of what an
// admin sends write what every dialect reads: unknown fields are ignored by
// all, so both spellings of a field that was renamed are sent.
//
// # Units
//
// Times are milliseconds since the Unix epoch, timeouts whole seconds, lines
// of a log count from 1. Job numbers are int32 and log IDs int64, because the
// executors type them so.
package wire
