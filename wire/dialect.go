package wire

// Dialect is one of the five variants of the protocol.
type Dialect uint8

// The dialects. DialectUnknown is the zero value: no message has identified the dialect.
const (
	DialectUnknown Dialect = iota
	DialectA               // xxl-job 2.2
	DialectB               // xxl-job 2.3 to 3.2; C's callbacks look the same
	DialectC               // xxl-job 3.3 and 3.4
	DialectD               // xxl-job 3.5
	DialectGo              // xxl-job-executor-go: A and B mixed
)

// String returns the letter of the table in the package comment, "Go", or "unknown".
func (d Dialect) String() string {
	switch d {
	case DialectA:
		return "A"
	case DialectB:
		return "B"
	case DialectC:
		return "C"
	case DialectD:
		return "D"
	case DialectGo:
		return "Go"
	}
	return "unknown"
}

// ParseDialect is the inverse of String. It returns DialectUnknown for an unknown name, so a value stored by a newer version does
// no harm.
func ParseDialect(s string) Dialect {
	for d := DialectA; d <= DialectGo; d++ {
		if d.String() == s {
			return d
		}
	}
	return DialectUnknown
}

// DialectOfHeader returns the dialect for the value of [HeaderApp] on a registration or callback: only D sends it. An empty value
// identifies none.
func DialectOfHeader(app string) Dialect {
	if app != "" {
		return DialectD
	}
	return DialectUnknown
}

// RunPath returns the path, with its slash, under an executor's base URL for runs. DialectUnknown has the path of A to C and
// Go, which most deployed executors use.
func (d Dialect) RunPath() string {
	if d == DialectD {
		return PathTrigger
	}
	return PathRun
}

// PayloadKey returns the key under which a reply in this dialect has its payload.
func (d Dialect) PayloadKey() string {
	if d == DialectC || d == DialectD {
		return "data"
	}
	return "content"
}

const (
	CodeSuccess = 200
	CodeFailure = 500
	CodeTimeout = 502 // only as the result of a run: the executor ended it
	CodeBusy    = 429 // not xxl-job's: tickring's own executors report a full queue with it
)

// Headers. Both can be sent to every dialect, because dialects ignore unknown headers.
const (
	HeaderToken = "XXL-JOB-ACCESS-TOKEN" //nolint:gosec // the name of a header
	HeaderApp   = "XXL-JOB-APPNAME"
)

// ContentType is the type that both sides send. Java executors answer with text/html anyway, so the type of a reply proves nothing.
const ContentType = "application/json;charset=UTF-8"

// Paths under an executor's base URL.
const (
	PathBeat     = "/beat"
	PathIdleBeat = "/idleBeat"
	PathRun      = "/run"
	PathTrigger  = "/trigger" // D
	PathKill     = "/kill"
	PathLog      = "/log"
)

// Paths under an admin's base URL.
const (
	PathRegistry       = "/api/registry"
	PathRegistryRemove = "/api/registryRemove"
	PathCallback       = "/api/callback"
)

// MaxBody is the largest body in bytes that executors accept.
const MaxBody = 5 << 20
