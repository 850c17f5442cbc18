package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
)

// RotateKey encrypts the stored secrets with a new key.
func (s *server) RotateKey(w http.ResponseWriter, r *http.Request, params client.RotateKeyParams) {
	res, err := s.o.Rotator.Rotate(r.Context(), params.After)
	s.reply(w, r, client.RotateResult{Key: res.Key, Changed: res.Changed, Next: res.Next}, err)
}
