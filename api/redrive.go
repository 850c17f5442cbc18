package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/words"
)

func (s *server) Redrive(r *http.Request, q client.RedriveRequest) (any, error) {
	if err := may(r, unless(q.DryRun, access.Operate), ""); err != nil {
		return nil, err
	}
	res, err := s.m.Redrive(r.Context(), actor(r), operate.RedriveRequest{DryRun: q.DryRun, Drop: q.Drop, Unread: q.Unread,
		After: q.After, Limit: q.Limit})
	out := client.RedriveResult{Letters: make([]client.DeadLetter, len(res.Letters)), Sent: res.Sent, Left: res.Left, Dropped: res.Dropped,
		Next: res.Next}
	for i := range res.Letters {
		l := &res.Letters[i]
		d := client.DeadLetter{ID: l.ID, At: l.At, Reason: l.Reason, Dropped: l.Dropped, Fires: make([]client.DeadFire, len(l.Fires)),
			Asks: words.Say(language(r), l.Asks)}
		if len(l.Fires) == 0 && d.Asks == "" {
			d.Text = core.Truncate(l.Body)
		}
		for k := range l.Fires {
			f := &l.Fires[k]
			x := client.DeadFire{Run: f.Run.String(), JobID: int32(f.Run.Job()), ScheduledAt: f.At.Time(), Cause: string(f.Cause),
				Why: words.Say(language(r), f.Why)}
			if f.Name != "" {
				x.Job = f.App + "/" + f.Name
			}
			d.Fires[k] = x
		}
		out.Letters[i] = d
	}
	return out, err
}
