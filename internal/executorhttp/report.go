package executorhttp

import (
	"crypto/hmac"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/wirehttp"
)

// MaxReport is the maximum size of a report body in bytes.
const MaxReport = 256 << 10

// heldLong is the number of bodies above 16 KiB held at once by an endpoint with bodies of at
// most MaxReport: 16 MiB.
const heldLong = 64

var errNoRoom = core.Errorf(core.CodeUnavailable, "the server is overloaded: send the request again")

// Report accepts the result of an HTTP call that the executor first answered with 202. The path is /v1/report/{run}.
// The key in the URL authorizes the report.
func (d Config) Report(f *finish.Finish, key send.Key) http.HandlerFunc {
	room := wirehttp.NewRoom(heldLong, 0)
	return d.noPage(func(w http.ResponseWriter, r *http.Request) { d.report(f, key, room, w, r) }, refusePage)
}

func (d Config) report(f *finish.Finish, key send.Key, room *wirehttp.Room, w http.ResponseWriter, r *http.Request) {
	refuse := func(reason string, err error) {
		d.note(w, r, rejectlog.Refusal{Door: rejectlog.Report, Reason: reason, Why: err.Error()})
		api.WriteError(w, r, d.Log, err)
	}
	id, err := core.ParseRunID(r.PathValue("run"))
	if err != nil {
		refuse(rejectlog.Invalid, err)
		return
	}
	signs, err := key(r.Context())
	if err != nil {
		d.Log.Error("the key of reports cannot be read", "run", id, "err", err)
		refuse(rejectlog.Unavailable, core.Errorf(core.CodeUnavailable, "the key that verifies run results cannot be read at "+
			"the moment: try again"))
		return
	}
	if !r.URL.Query().Has("key") {
		refuse(rejectlog.Token, core.Errorf(core.CodeUnauthorized, "the URL has no key: use the URL from the header %s "+
			"unchanged",
			send.HeaderCallback))
		return
	}
	if !hmac.Equal([]byte(r.URL.Query().Get("key")), []byte(send.ReportSignature(signs, id))) {
		refuse(rejectlog.Token,
			core.Errorf(core.CodeUnauthorized, "the key in the URL belongs to another run: use the URL from the header %s "+
				"unchanged", send.HeaderCallback))
		return
	}
	var body struct {
		State   core.State `json:"state"`
		Message string     `json:"message"`
		Data    string     `json:"data"`
		// RetryAfter is in seconds, as an executor's tickringRetryAfter.
		RetryAfter int32 `json:"retryAfter"`
	}
	leave, ok := room.Enter(r, "job/"+id.Job().String(), MaxReport)
	if !ok {
		refuse(rejectlog.Busy, errNoRoom)
		return
	}
	defer leave()
	b, err := wirehttp.ReadBody(w, r, nil, MaxReport, d.ReadFor)
	if err != nil {
		err = unread(err, core.Say("a report"), MaxReport)
		refuse(reasonOf(err), err)
		return
	}
	body.State = core.Succeeded
	if len(b) > 0 {
		if err := json.Unmarshal(b, &body); err != nil {
			refuse(rejectlog.Invalid, core.Errorf(core.CodeInvalid, `a report is JSON: {"state":"succeeded"} or {"state":"failed","message":"why"}`))
			return
		}
	}
	if len(body.Data) > core.DataMax {
		refuse(rejectlog.Large, core.Errorf(core.CodeTooLarge, "the data has %d bytes; at most %d are allowed", len(body.Data), core.DataMax))
		return
	}
	res := finish.Result{Run: id, Reported: true, State: body.State, Message: body.Message, Data: body.Data,
		RetryAfter: max(time.Duration(body.RetryAfter)*time.Second, core.NoRetry)}
	switch body.State {
	case core.Succeeded:
	case core.Failed:
		res.Reason = core.ReasonHandler
	case core.TimedOut:
		res.Reason = core.ReasonTimeout
	default:
		refuse(rejectlog.Invalid, core.Invalid("state", string(body.State), "allowed: succeeded, failed, timed-out"))
		return
	}
	if err := f.End(r.Context(), []finish.Result{res})[0]; err != nil {
		refuse(reasonOf(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"stored":true}`+"\n")
}
