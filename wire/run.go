package wire

import "errors"

// Block strategies. A block strategy decides about a new run while another run of its job is running on the executor.
const (
	BlockSerial  = "SERIAL_EXECUTION" // queue the new run; the Go executor rejects it instead
	BlockDiscard = "DISCARD_LATER"    // reject the new run
	BlockCover   = "COVER_EARLY"      // end the older run and start the new one
)

// Glue types. GlueBean means that the executor has a handler for the job. With any other type, the run includes its script.
const (
	GlueBean       = "BEAN"
	GlueGroovy     = "GLUE_GROOVY" // runs inside Java executors
	GlueShell      = "GLUE_SHELL"
	GluePython     = "GLUE_PYTHON"
	GluePHP        = "GLUE_PHP"
	GlueNodeJS     = "GLUE_NODEJS"
	GluePowerShell = "GLUE_POWERSHELL"
)

// A Run is the body of a /run (A to C, Go) or /trigger (D) request: the order to start one run. A Run is the same in all
// dialects.
type Run struct {
	JobID          int32
	Handler        string
	Params         string
	BlockStrategy  string
	Timeout        int32 // seconds; 0 means no timeout
	LogID          int64
	LogTime        int64 // ms since the Unix epoch; a resent order and later /log requests must repeat the value
	GlueType       string
	GlueSource     string
	GlueUpdated    int64 // ms since the Unix epoch; executors recompile the script if the value changes
	BroadcastIndex int32
	BroadcastTotal int32 // number of shards of a broadcast; 1 for other runs

	// About has facts that only tickring sends. About is not part of xxl-job's body.
	About About
}

// AppendRun appends r as JSON, without its About. AppendRun allocates memory only if dst is too small.
func AppendRun(dst []byte, r *Run) []byte {
	dst = appendInt(dst, `{"jobId":`, int64(r.JobID))
	dst = appendText(dst, `,"executorHandler":`, r.Handler)
	dst = appendText(dst, `,"executorParams":`, r.Params)
	dst = appendText(dst, `,"executorBlockStrategy":`, r.BlockStrategy)
	dst = appendInt(dst, `,"executorTimeout":`, int64(r.Timeout))
	dst = appendInt(dst, `,"logId":`, r.LogID)
	dst = appendInt(dst, `,"logDateTime":`, r.LogTime)
	dst = appendText(dst, `,"glueType":`, r.GlueType)
	dst = appendText(dst, `,"glueSource":`, r.GlueSource)
	dst = appendInt(dst, `,"glueUpdatetime":`, r.GlueUpdated)
	dst = appendInt(dst, `,"broadcastIndex":`, int64(r.BroadcastIndex))
	dst = appendInt(dst, `,"broadcastTotal":`, int64(r.BroadcastTotal))
	return append(dst, '}')
}

// DecodeRun reads the body of a /run or /trigger request, or the output of [AppendOrder]. Fields that are missing or null have
// their zero value. DecodeRun returns an error if a field has the wrong type, or if jobId or logId is not positive or too
// large.
func DecodeRun(body []byte) (Run, error) {
	var r Run
	err := decodeObject(body, field{"jobId", &r.JobID}, field{"executorHandler", &r.Handler}, field{"executorParams", &r.Params},
		field{"executorBlockStrategy", &r.BlockStrategy}, field{"executorTimeout", &r.Timeout}, field{"logId", &r.LogID},
		field{"logDateTime", &r.LogTime}, field{"glueType", &r.GlueType}, field{"glueSource", &r.GlueSource},
		field{"glueUpdatetime", &r.GlueUpdated}, field{"broadcastIndex", &r.BroadcastIndex}, field{"broadcastTotal", &r.BroadcastTotal},
		field{"tickring", func(value []byte) { r.About = about(value) }})
	switch {
	case err != nil:
		return Run{}, err
	case r.JobID <= 0:
		return Run{}, errors.New("jobId is missing or not positive")
	case r.LogID <= 0:
		return Run{}, errors.New("logId is missing or not positive")
	}
	return r, nil
}

// A KillRequest is the body of a /kill request, which ends all running and queued runs of a job.
type KillRequest struct{ JobID int32 }

// An IdleBeatRequest is the body of an /idleBeat request, which asks whether a job has running or queued runs.
type IdleBeatRequest struct{ JobID int32 }

func AppendKill(dst []byte, k KillRequest) []byte { return appendJobID(dst, k.JobID) }

func AppendIdleBeat(dst []byte, b IdleBeatRequest) []byte { return appendJobID(dst, b.JobID) }

// DecodeKill reads the body of a /kill request. DecodeKill returns an error unless jobId is positive.
func DecodeKill(body []byte) (KillRequest, error) {
	id, err := decodeJobID(body)
	return KillRequest{id}, err
}

// DecodeIdleBeat reads the body of an /idleBeat request. DecodeIdleBeat returns an error unless jobId is positive.
func DecodeIdleBeat(body []byte) (IdleBeatRequest, error) {
	id, err := decodeJobID(body)
	return IdleBeatRequest{id}, err
}

func appendJobID(dst []byte, id int32) []byte {
	return append(appendInt(dst, `{"jobId":`, int64(id)), '}')
}

func decodeJobID(body []byte) (id int32, err error) {
	err = decodeObject(body, field{"jobId", &id})
	if err == nil && id <= 0 {
		err = errors.New("jobId is missing or not positive")
	}
	return id, err
}
