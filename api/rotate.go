package api

import (
	"net/http"

	"github.com/tickring/tickring/api/client"
)

// The types of a rotation of the key.
type (
	RotateKeyParams = client.RotateKeyParams
	RotateResult    = client.RotateResult
)

// RotateKey encrypts the stored secrets with a new key.
func (s *server) RotateKey(w http.ResponseWriter, r *http.Request, params RotateKeyParams) {
	res, err := s.o.Rotator.Rotate(r.Context(), params.After)
	s.reply(w, r, RotateResult{Key: res.Key, Changed: res.Changed, Next: res.Next}, err)
}
