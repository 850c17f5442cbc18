// Command registry is the function that executors register at: it writes their
// heartbeats and removals. core/registry is what it drives.
package main

import (
	"context"
	"net/http"

	awslambda "github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/boot"
	"github.com/tickring/tickring/internal/doors"
)

func main() {
	c, _, store, log, err := boot.Open(context.Background(), boot.Needs{})
	boot.Must(log, err)
	reg := registry.New(store, registry.Options{AllowNoToken: c.NoToken, Allowed: doors.Allowed(c.Policy)})
	mux := http.NewServeMux()
	doors.Wire(mux, reg, nil, log)
	awslambda.Start(boot.HTTP(mux, log))
}
