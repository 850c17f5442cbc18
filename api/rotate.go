package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/rotate"
)

func (s *server) RotateKey(r *http.Request, params client.RotateKeyParams) (any, error) {
	res, err := rotate.Key(r.Context(), s.o.Store, actor(r), params.After)
	return client.RotateResult{Key: res.Key, Changed: res.Changed, Next: res.Next}, err
}
