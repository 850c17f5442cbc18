package wire

// Dialect is one of the five variants of the xxl-job protocol. The package comment compares them.
type Dialect uint8

// The dialects. DialectUnknown is the zero value: no message identified the dialect.
const (
	DialectUnknown Dialect = iota
	DialectA               // xxl-job 2.2
	DialectB               // xxl-job 2.3 to 3.2; has the same callbacks as DialectC
	DialectC               // xxl-job 3.3 and 3.4
	DialectD               // xxl-job 3.5
	DialectGo              // xxl-job-executor-go, a mixture of A and B
)

// String returns the letter of the dialect ("A" to "D"), "Go" or "unknown".
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

// ParseDialect returns the dialect whose String is s. ParseDialect returns DialectUnknown for any other text, so that values
// stored by newer versions are accepted.
func ParseDialect(s string) Dialect {
	for d := DialectA; d <= DialectGo; d++ {
		if d.String() == s {
			return d
		}
	}
	return DialectUnknown
}

// DialectOfHeader returns DialectD if app, the value of [HeaderApp] in a registration or callback, is not empty. Only
// executors of dialect D send this header. For an empty value it returns DialectUnknown.
func DialectOfHeader(app string) Dialect {
	if app != "" {
		return DialectD
	}
	return DialectUnknown
}

// RunPath returns the path for starting a run, with a leading slash, to append to an executor's base URL. For DialectUnknown
// it returns the path of dialects A to C and Go, because most deployed executors use this path.
func (d Dialect) RunPath() string {
	if d == DialectD {
		return PathTrigger
	}
	return PathRun
}

// PayloadKey returns the name of the JSON member that has the payload of a reply in this dialect.
func (d Dialect) PayloadKey() string {
	if d == DialectC || d == DialectD {
		return "data"
	}
	return "content"
}

const (
	CodeSuccess = 200
	CodeFailure = 500
	CodeTimeout = 502 // only as the result of a run: the executor ended the run at its timeout
	CodeBusy    = 429 // an addition of tickring: its own executors send this code if their queue is full
)

// Headers of requests. Both headers can be sent to executors of every dialect, because every dialect ignores unknown headers.
const (
	HeaderToken = "XXL-JOB-ACCESS-TOKEN" //nolint:gosec // the name of a header
	HeaderApp   = "XXL-JOB-APPNAME"
)

// ContentType is the content type of requests and replies. Java executors send JSON replies as text/html, so decoders ignore
// the type.
const ContentType = "application/json;charset=UTF-8"

// Paths of the requests to an executor, to append to its base URL.
const (
	PathBeat     = "/beat"
	PathIdleBeat = "/idleBeat"
	PathRun      = "/run"
	PathTrigger  = "/trigger" // PathRun in dialect D
	PathKill     = "/kill"
	PathLog      = "/log"
)

// Paths of the requests to an admin, to append to its base URL.
const (
	PathRegistry       = "/api/registry"
	PathRegistryRemove = "/api/registryRemove"
	PathCallback       = "/api/callback"
)

// MaxBody is the maximum size in bytes of a request body that executors accept.
const MaxBody = 5 << 20
