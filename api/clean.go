package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/operate"
)

func (s *server) Clean(r *http.Request, body client.CleanRequest) (any, error) {
	if err := s.mayThese(r, unless(body.DryRun, access.Edit), body.Job, body.App); err != nil {
		return nil, err
	}
	res, err := s.m.Clean(r.Context(), actor(r), operate.CleanRequest{Job: body.Job, App: body.App, Before: body.Before, Keep: body.Keep,
		DryRun: body.DryRun, After: body.After, States: as[core.State](body.State)})
	out := client.CleanResult{Cleaned: res.Cleaned, Held: res.Held, Next: res.Next}
	if res.Failed != nil {
		out.Failed = s.errorOf(r, res.Failed).Message
	}
	return out, err
}
