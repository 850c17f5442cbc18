package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
)

func (s *server) RotateKey(w http.ResponseWriter, r *http.Request, params client.RotateKeyParams) (any, error) {
	res, err := s.o.Rotator.Rotate(r.Context(), actor(r), params.After)
	return client.RotateResult{Key: res.Key, Changed: res.Changed, Next: res.Next}, err
}
