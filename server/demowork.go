package server

import (
	"context"
	_ "embed"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/manifest"
	"github.com/tickring/tickring/store"
)

//go:embed demo.yaml
var demoManifest []byte

// demoCompany returns the apps and the jobs of the demo, parents before their children.
func demoCompany() (*manifest.Document, error) {
	return manifest.Parse("demo.yaml", demoManifest, manifest.Options{})
}

// demoExecutors is how many executors an app of the demo has; zero means one.
var demoExecutors = map[string]int{"web": 3}

// demoPaused is the job that the demo creates paused, and demoReason the reason.
const (
	demoPaused = "warehouse/marketplace-export"
	demoReason = "The marketplace closed in October."
)

// A demoStep is one log line of a demo handler and the time before it. In the line, {n} is
// a number from 10 to 99 that depends on the run, and {shard} and {shards} name its shard.
type demoStep struct {
	takes time.Duration
	line  string
}

const ms = time.Millisecond

// demoWork has the steps of each handler. The last line is the result of the run.
var demoWork = map[string][]demoStep{
	"exchangeRates": {
		{20 * ms, "GET https://rates.example.com/daily.xml: 200 OK, 31 currencies"},
		{5 * ms, "EUR/USD 1.16{n}, EUR/GBP 0.87{n}, EUR/CNY 8.23{n}"}},
	"sendInvoices": {
		{30 * ms, "{n} orders without an invoice"},
		{250 * ms, "{n} PDF files created"},
		{350 * ms, "smtp.example.com: {n} emails accepted"},
		{10 * ms, "{n} invoices sent"}},
	"paymentReminders": {
		{40 * ms, "{n} invoices are unpaid for more than 14 days"},
		{200 * ms, "{n} reminders sent"}},
	"monthEndReport": {
		{200 * ms, "1,9{n} invoices, 27 credit notes"},
		{300 * ms, "month-end.xlsx stored, 3{n} KB"}},
	"stockSync": {
		{30 * ms, "{n} products changed"},
		{60 * ms, "{n} stock levels sent to the web shop"}},
	"supplierImport": {
		{40 * ms, "connected to sftp.supplier.example.com"},
		{90 * ms, "prices.csv: 4,1{n} lines"},
		{120 * ms, "{n} prices changed, 0 rejected"}},
	"marketplaceExport": {
		{150 * ms, "4,1{n} products exported"}},
	"clearCaches": {
		{25 * ms, "web server {shard} of {shards}: 2{n} pages removed"}},
	"newsletter": {
		{300 * ms, "2,4{n} newsletters sent"}},
	"backup": {
		{100 * ms, "pg_dump shop: started"},
		{600 * ms, "table orders: 184,3{n} rows"},
		{700 * ms, "table customers: 22,7{n} rows"},
		{500 * ms, "uploaded to s3://example-backups/shop.dump"},
		{50 * ms, "backup complete, 412 MB"}},
	"verifyBackup": {
		{300 * ms, "restored shop.dump to a scratch database"},
		{200 * ms, "38 tables, row counts match"}},
	"backupReport": {
		{80 * ms, "report sent to ops@example.com"}},
	"cleanupTempFiles": {
		{40 * ms, "/var/tmp: 1,2{n} files checked"},
		{30 * ms, "{n} files deleted, {n} MB freed"}},
	"nightlyArchive": {
		{400 * ms, "3{n} closed orders moved to the archive"}},
}

// demoHandlers returns the handlers of the demo's executors.
func demoHandlers() *executor.Mux {
	m := executor.NewMux()
	for name, steps := range demoWork {
		m.Register(name, func(ctx context.Context, r *executor.Run) error { return demoRun(ctx, r, steps) })
	}
	return m
}

// demoRun does the work of a run.
func demoRun(ctx context.Context, r *executor.Run, steps []demoStep) error {
	if r.Params != "" {
		r.Printf("params: %s", r.Params)
	}
	failure := demoFailure(r)
	if failure != "" {
		steps = []demoStep{steps[0], {150 * ms, failure}}
	}
	seed := uint64(r.ID) * 0x9e3779b97f4a7c15 >> 32
	fill := strings.NewReplacer("{n}", strconv.FormatUint(10+seed%90, 10),
		"{shard}", strconv.Itoa(r.ShardIndex+1), "{shards}", strconv.Itoa(r.ShardTotal))
	var line string
	for _, s := range steps {
		if !store.Sleep(ctx, s.takes*time.Duration(60+seed%80)/100) {
			return errors.New("stopped before the end")
		}
		line = fill.Replace(s.line)
		r.Printf("%s", line)
	}
	if failure != "" {
		return errors.New(line)
	}
	r.SetResult(executor.Success, line)
	return nil
}

// demoFailure returns why an attempt of the supplier's import fails, or nothing. By the
// seconds of its scheduled time a run succeeds (0 to 19), needs a second attempt (20 to 39)
// or fails in every attempt (40 to 59).
func demoFailure(r *executor.Run) string {
	if r.Handler != "supplierImport" {
		return ""
	}
	params, err := url.ParseQuery(r.Params)
	if err != nil {
		return ""
	}
	at, err := time.Parse(time.TimeOnly, params.Get("time"))
	if err != nil {
		return ""
	}
	switch attempt := params.Get("attempt"); {
	case at.Second() >= 40:
		return "prices.csv: connection reset by sftp.supplier.example.com"
	case at.Second() >= 20 && attempt == "1":
		return "prices.csv: locked by the supplier"
	}
	return ""
}
