package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/lambdaboot"
)

// guarded serves the handler that make creates with the API's tokens, from the first request that can read them. Until then clients
// get an error and can retry.
func guarded(tokens func(context.Context) (lambdaboot.Tokens, error), log *slog.Logger,
	make func(lambdaboot.Tokens) http.Handler) http.Handler {
	var once sync.Once
	var h http.Handler
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := tokens(r.Context())
		if err != nil {
			log.Error("API tokens not read", "err", err)
			api.WriteError(w, r, log, core.Errorf(core.CodeUnavailable, "the token cannot be read at the moment, so all access is denied: try "+
				"again"))
			return
		}
		once.Do(func() { h = make(t) })
		h.ServeHTTP(w, r)
	})
}
