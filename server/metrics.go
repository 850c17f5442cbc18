package server

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/store"
)

// metrics are the server's own numbers; labels are bounded, by apps and by jobs.
type metrics struct {
	reg      *prometheus.Registry
	lateness *prometheus.HistogramVec
	took     *prometheus.HistogramVec
	sends    *prometheus.CounterVec
	runs     *prometheus.CounterVec
	fires    prometheus.Counter
	skipped  prometheus.Counter
	lastTick prometheus.Gauge
	refused  *prometheus.CounterVec
	spans    *prometheus.CounterVec
	logs     *prometheus.CounterVec
	logsLost atomic.Int64
	notices  *prometheus.CounterVec
	untold   atomic.Int64 // notifications that were given up

	mu   sync.RWMutex
	apps map[string]*appMetrics

	chainMu sync.Mutex
	chains  map[chain]map[core.State]int // that ended, by how
	places  map[string]int               // of jobs with series of their own, by app
	taken   int                          // places of all apps
}

// A chain is the key by which retry chains are counted: app and job. Job 0 stands for all jobs of an app without series of their
// own. Job 0 without an app stands for these jobs of all apps without series.
type chain struct {
	app string
	job core.JobID
}

// appMetrics are looked up once per app: resolving labels costs more than counting.
type appMetrics struct {
	lateness prometheus.Observer
	took     prometheus.Observer
	sends    [dispatch.AnswerEnded + 1]prometheus.Counter
	runs     map[core.State]prometheus.Counter
}

// Bounds of the labels: of apps, and of jobs, which have a series for each outcome.
const (
	maxApps = 1000
	maxJobs = 200
	others  = "(others)"
)

func newMetrics() *metrics {
	m := &metrics{
		reg: prometheus.NewRegistry(),
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tickring_lateness_seconds",
			Help:    "Time from the due time of a run to its send.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}}, []string{"app"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tickring_run_seconds",
			Help:    "Time from the send of a run to its end.",
			Buckets: []float64{.005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 86400}}, []string{"app"}),
		sends: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tickring_sends_total", Help: "Sends to executors by answer."},
			[]string{"app", "answer"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tickring_runs_closed_total", Help: "Runs that ended, by state."},
			[]string{"app", "state"}),
		fires: prometheus.NewCounter(prometheus.CounterOpts{Name: "tickring_fires_planned_total", Help: "Scheduled runs that the planner put " +
			"on the delay queue."}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "tickring_runs_skipped_total",
			Help: "Scheduled times that the planner recorded as skipped."}),
		lastTick: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tickring_last_tick_timestamp_seconds",
			Help: "Time when the planner last finished a pass."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tickring_rejected_requests_total",
			Help: "Rejected requests, by endpoint and reason."}, []string{"endpoint", "reason"}),
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tickring_spans_total",
			Help: "Spans of traces, by result: exported to the collector, or lost."}, []string{"result"}),
		logs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tickring_logs_archived_total",
			Help: "Logs of runs to store, by outcome: kept, none (the executor has none), or failed."}, []string{"outcome"}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tickring_notifications_total",
			Help: "Deliveries of notifications to channels, by outcome: sent, failed (retried), or given-up."}, []string{"outcome"}),
		apps: map[string]*appMetrics{}, chains: map[chain]map[core.State]int{}, places: map[string]int{},
	}
	m.reg.MustRegister(m.lateness, m.took, m.sends, m.runs, m.fires, m.skipped, m.lastTick, m.refused, m.spans, m.logs, m.notices)
	m.spansWent(0, 0)
	for _, o := range postrun.Outcomes {
		m.logs.WithLabelValues(string(o))
	}
	for _, o := range notification.Outcomes {
		m.notices.WithLabelValues(string(o))
	}
	return m
}

func (m *metrics) app(name string) *appMetrics {
	m.mu.RLock()
	a := m.apps[name]
	m.mu.RUnlock()
	if a != nil {
		return a
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a = m.apps[name]; a != nil {
		return a
	}
	if len(m.apps) >= maxApps {
		name = others
		if a = m.apps[name]; a != nil {
			return a
		}
	}
	a = &appMetrics{lateness: m.lateness.WithLabelValues(name), took: m.took.WithLabelValues(name), runs: map[core.State]prometheus.Counter{}}
	for k := range a.sends {
		a.sends[k] = m.sends.WithLabelValues(name, dispatch.AnswerKind(k).String())
	}
	for _, s := range core.States {
		if !s.Open() {
			a.runs[s] = m.runs.WithLabelValues(name, string(s))
		}
	}
	m.apps[name] = a
	return a
}

func (m *metrics) sent(r *core.Run, at time.Time, k dispatch.AnswerKind) {
	a := m.app(r.App)
	a.sends[k].Inc()
	if r.HasLateness() {
		a.lateness.Observe(at.Sub(r.Slot.Time()).Seconds())
	}
}

func (m *metrics) log(_ *core.Run, o postrun.Outcome) {
	m.logs.WithLabelValues(string(o)).Inc()
	if o == postrun.Failed {
		m.logsLost.Add(1)
	}
}

// notice counts an attempt to send a notification. It has no label for the channel, because deleted channels would leave series
// behind; doctor names the channel.
func (m *metrics) notice(o notification.Outcome) {
	m.notices.WithLabelValues(string(o)).Inc()
	if o == notification.GivenUp {
		m.untold.Add(1)
	}
}

func (m *metrics) closed(r *core.Run) {
	a := m.app(r.App)
	if c := a.runs[r.State]; c != nil {
		c.Inc()
	}
	if r.Sent() && r.EndedAt.After(r.SentAt) {
		a.took.Observe(r.EndedAt.Sub(r.SentAt).Seconds())
	}
	if r.Then != 0 {
		return
	}
	m.chainMu.Lock()
	defer m.chainMu.Unlock()
	of := chain{r.App, r.ID.Job()}
	if m.chains[of] == nil {
		switch has := m.places[r.App]; {
		case has < maxJobs-m.taken: // so one app has half of them at most, a second one a quarter
			m.places[r.App]++
			m.taken++
		case has > 0:
			of.job = 0
		default:
			of = chain{}
		}
	}
	if m.chains[of] == nil {
		m.chains[of] = map[core.State]int{}
	}
	m.chains[of][r.State]++
}

func (m *metrics) spansWent(exported, lost int) {
	m.spans.WithLabelValues("exported").Add(float64(exported))
	m.spans.WithLabelValues("lost").Add(float64(lost))
}

func (m *metrics) pass(res tick.Result, at time.Time) {
	m.fires.Add(float64(res.Fires))
	m.skipped.Add(float64(res.Skipped))
	m.lastTick.Set(float64(at.UnixMilli()) / 1000)
}

// handler serves /metrics; it reads the store on each request.
func (m *metrics) handler(p *parts) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		&collector{prometheus.NewDesc("tickring_ring_messages", "Messages on the delay queue.", []string{"kind", "state"}, nil), p.depth},
		&collector{prometheus.NewDesc("tickring_runs_finished_total", "Retry chains that ended, by job and state of the last attempt.",
			[]string{"app", "name", "outcome"}, nil), func(ctx context.Context, c sampler) error { return m.finished(ctx, p, c) }},
		&collector{prometheus.NewDesc("tickring_reports_until_timestamp_seconds", "Time up to which runs are summed up for reports.", nil, nil),
			p.summed})
	return promhttp.HandlerFor(prometheus.Gatherers{m.reg, reg}, promhttp.HandlerOpts{})
}

// sampler receives a value with its labels.
type sampler func(kind prometheus.ValueType, value float64, labels ...string)

// collector is a metric whose values are read from the store when it is scraped.
type collector struct {
	desc *prometheus.Desc
	read func(ctx context.Context, c sampler) error
}

func (k *collector) Describe(c chan<- *prometheus.Desc) { c <- k.desc }

func (k *collector) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := k.read(ctx, func(kind prometheus.ValueType, value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(k.desc, kind, value, labels...)
	})
	if err != nil {
		c <- prometheus.NewInvalidMetric(k.desc, err)
	}
}

// depth reads the depth of the delay queue.
func (p *parts) depth(ctx context.Context, c sampler) error {
	for _, kind := range []ring.Kind{ring.KindFires, ring.KindCheck, ring.KindPostRun} {
		due, waiting, inFlight, err := p.store.Queue.Depth(ctx, kind)
		if err != nil {
			return err
		}
		for state, n := range map[string]int{"due": due, "waiting": waiting, "in-flight": inFlight} {
			c(prometheus.GaugeValue, float64(n), string(kind), state)
		}
	}
	return nil
}

// summed reads up to which time reports count runs; 0: up to none.
func (p *parts) summed(ctx context.Context, c sampler) error {
	h, err := p.reports.Health(ctx)
	if err == nil {
		c(prometheus.GaugeValue, float64(h.Until))
	}
	return err
}

// finished looks up the names of jobs at scrape time, so dispatch does not pay for them.
func (m *metrics) finished(ctx context.Context, p *parts, c sampler) error {
	m.chainMu.Lock()
	ended := make(map[chain]map[core.State]int, len(m.chains))
	var jobs []core.JobID
	for of, by := range m.chains {
		ended[of] = maps.Clone(by)
		if of.job != 0 {
			jobs = append(jobs, of.job)
		}
	}
	m.chainMu.Unlock()
	found, err := p.store.Jobs.Get(ctx, store.Whole, jobs)
	if err != nil {
		return err
	}
	for of, by := range ended {
		app, name := of.app, others
		switch j := found[of.job]; {
		case j.Is != nil && j.Err == nil:
			app, name = j.Is.Def.App, j.Is.Def.Name
		case of.job != 0: // deleted
			app, name = "", of.job.String()
		case app == "":
			app = others
		}
		for _, s := range core.States {
			if !s.Open() {
				c(prometheus.CounterValue, float64(by[s]), app, name, string(s))
			}
		}
	}
	return nil
}
