package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store/sqlite"
)

func Example() {
	s, err := sqlite.OpenMemory(sqlite.Options{}) // instead of a running server
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	m := wiring.New(s.Store, wiring.Options{Plan: plan.Local()}).People(nil, people.Options{})
	server := httptest.NewServer(api.NewHandler(m, nil, api.Options{Token: "sesame"}))
	defer server.Close()

	ctx := context.Background()
	c, err := client.New(server.URL, "sesame", client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.Apply(ctx, client.ApplyRequest{
		Apps: []client.AppSpec{{Name: "web", Executors: []string{"call:https://example.com"}}},
		Jobs: []client.JobSpec{{App: "web", Name: "warmup", Handler: "/warm", Schedule: client.Schedule{Every: "5m"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Jobs[0].App, res.Jobs[0].Name, res.Jobs[0].Change)

	_, err = c.GetJob(ctx, "web", "none")
	fmt.Println(err)
	// Output:
	// web warmup created
	// job web/none does not exist
}
