package wire

import "errors"

// A LogRequest is the body of a /log request, which asks for the log of a run from a certain line on.
type LogRequest struct {
	LogID    int64
	LogTime  int64 // send time of the run in ms since the Unix epoch; the executor finds the log file by this date
	FromLine int32 // number of the first requested line; the first line of a log is 1
}

// A LogResult is the payload of the reply to a /log request.
type LogResult struct {
	FromLine int32 // FromLine of the request
	ToLine   int32 // number of the last line in Content; less than FromLine if Content has no lines
	Content  string
	End      bool // whether the log is complete; Java executors set it only if the log file is missing
}

func AppendLogRequest(dst []byte, q LogRequest) []byte {
	dst = appendInt(dst, `{"logId":`, q.LogID)
	dst = appendInt(dst, `,"logDateTim":`, q.LogTime)
	dst = appendInt(dst, `,"logDateTime":`, q.LogTime)
	dst = appendInt(dst, `,"fromLineNum":`, int64(q.FromLine))
	return append(dst, '}')
}

// DecodeLogRequest reads the body of a /log request. DecodeLogRequest accepts both spellings of the time. DecodeLogRequest
// returns an error unless logId is positive.
func DecodeLogRequest(body []byte) (LogRequest, error) {
	var q LogRequest
	var time int64 // under its other name
	err := decodeObject(body, field{"logId", &q.LogID}, field{"logDateTim", &q.LogTime}, field{"logDateTime", &time},
		field{"fromLineNum", &q.FromLine})
	q.LogTime = max(q.LogTime, time, 0)
	if err == nil && q.LogID <= 0 {
		err = errors.New("logId is missing or not positive")
	}
	return q, err
}

// AppendLogReply appends the reply to a /log request, as an executor of dialect d sends it. An empty msg is encoded as null.
func AppendLogReply(dst []byte, d Dialect, code int, msg string, res LogResult) []byte {
	dst = appendInt(dst, `{"code":`, int64(code))
	dst = appendMsg(dst, msg)
	dst = append(dst, `,"`...)
	dst = append(dst, d.PayloadKey()...)
	dst = appendInt(dst, `":{"fromLineNum":`, int64(res.FromLine))
	dst = appendInt(dst, `,"toLineNum":`, int64(res.ToLine))
	dst = appendText(dst, `,"logContent":`, res.Content)
	if res.End {
		return append(dst, `,"isEnd":true}}`...)
	}
	return append(dst, `,"isEnd":false}}`...)
}

// LogResult decodes the payload of the reply to a /log request. LogResult returns an error if the reply has no payload.
func (r Reply) LogResult() (LogResult, error) {
	if r.Payload == nil {
		return LogResult{}, errors.New("the reply has neither content nor data")
	}
	var res LogResult
	err := decodeObject(r.Payload, field{"fromLineNum", &res.FromLine}, field{"toLineNum", &res.ToLine},
		field{"logContent", func(value []byte) { res.Content = text(value) }},
		field{"isEnd", func(value []byte) { res.End = string(value) == "true" }})
	if err != nil {
		return LogResult{}, err
	}
	return res, nil
}

// CutLog decodes a reply to a /log request whose end is missing. The parameter from is the number of its first log line. The
// result has the complete lines, or the start of the first line if no line is complete. A last line reports the cut. The
// result ok is false if body has no log text.
func CutLog(body []byte, from int32) (res LogResult, ok bool) {
	code := int64(CodeSuccess)
	var raw []byte
	members(body, func(key, value []byte) {
		switch string(key) {
		case "code":
			code, _ = integer(value)
		case "content", "data":
			members(value, func(key, value []byte) {
				if string(key) == "logContent" && value[0] == '"' {
					raw = value[1:]
				}
			})
		}
	})
	end, lines := wholeLines(raw)
	if code != CodeSuccess || end == 0 {
		return LogResult{}, false
	}
	res = LogResult{FromLine: from, ToLine: from + int32(lines) - 1, Content: unescape(raw[:end])}
	if lines == 0 {
		res.ToLine, res.Content = from, res.Content+"… (the line is cut)\n"
	}
	return res, true
}

// wholeLines is where the last whole line of an escaped text ends, and how many there are; of a
// text without one where its last whole character ends.
func wholeLines(raw []byte) (end, lines int) {
	i := 0
	for i < len(raw) && raw[i] != '"' {
		n := 1
		switch {
		case raw[i] != '\\':
		case i+1 < len(raw) && raw[i+1] == 'u':
			n = 6
		default:
			n = 2
		}
		if i+n > len(raw) {
			break
		}
		i += n
		if n == 2 && raw[i-1] == 'n' {
			end, lines = i, lines+1
		}
	}
	if lines == 0 {
		end = i
	}
	return end, lines
}
