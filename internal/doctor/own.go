package doctor

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/words"
)

const (
	maxExecutors  = 1000 // that are reported
	maxLetters    = 100  // dead-letter messages that are counted
	maxUnreadable = 100  // due jobs of a partition that are skipped because they cannot be read
)

// gathering collects the deployment's own facts; facts that it cannot read are named.
type gathering struct {
	s   *store.Store
	now time.Time
	l   words.Language
	f   *client.Facts
	log *slog.Logger
	// answer returns the last answers of executor addresses; nil: unknown.
	answer api.Answer
}

// known reports whether a fact could be read. It logs the error, and records the English name of the fact for programs;
// Judge translates the name.
func (k *gathering) known(what string, err error) bool {
	if err != nil {
		k.log.Warn("fact not read", "fact", what, "err", err)
		k.f.Unread = append(k.f.Unread, core.Phrase(what).String())
	}
	return err == nil
}

// said returns an error for users in the language of the caller.
func (k *gathering) said(err error) string {
	if e, ok := errors.AsType[*core.Error](err); ok {
		return words.Error(k.l, e)
	}
	return err.Error()
}

// Gather reads the deployment's own facts from a store and adds them to f. It logs the errors of facts that cannot be
// read. The texts are in the language l. Pass a store without a fence, so that Gather also works on a standby deployment.
func Gather(ctx context.Context, s *store.Store, now time.Time, l words.Language, f *client.Facts, log *slog.Logger, answer api.Answer) {
	k := &gathering{s, now, l, f, log, answer}
	f.Now = now.UTC()
	g, err := s.Global(ctx)
	if k.known("global item", err) {
		f.Generation, f.Holder, f.Partitions, f.Paused = g.Generation, g.Holder, max(g.Partitions, 1), g.Pause.Covers(now)
		if g.Loss.From != 0 {
			f.LossFound = g.Loss.At
		}
		if err := g.Admits(f.Deployment); err != nil {
			f.Fenced = k.said(err)
		}
	} else {
		g = core.Global{Partitions: 1, Readable: 1}
	}
	if f.LastTick.IsZero() {
		f.LastTick, err = s.LastAlive(ctx)
		k.known("last tick", err)
	}
	for p := range max(g.Readable, g.Partitions, 1) {
		first, err := k.firstDue(ctx, p)
		if !k.known("due index", err) {
			break
		}
		if first != 0 && (f.DueSince.IsZero() || first.Time().Before(f.DueSince)) {
			f.DueSince = first.Time()
		}
	}
	oldest, err := s.Queue.Oldest(ctx)
	k.known("oldest message", err)
	f.OldestMessage, f.UncomparedFrom = oldest.First(), oldest.Due
	if !oldest.Due.IsZero() { // nothing is older than the first job
		jobs, _, err := s.Jobs.List(ctx, "", 0, 1)
		if k.known("first job", err) && len(jobs) > 0 && jobs[0].Err == nil && jobs[0].Is.Def.Created.After(oldest.Due) {
			f.UncomparedFrom = jobs[0].Is.Def.Created
		}
	}
	f.Fires, f.Checks = k.depth(ctx, "queue of fires", ring.KindFires), k.depth(ctx, "queue of checks", ring.KindCheck)
	f.PostRun = k.depth(ctx, "queue of logs and notifications", ring.KindPostRun)
	if letters, err := s.Letters(ctx, "", maxLetters); k.known("dead letters", err) {
		n := len(letters)
		f.DeadLetters = &n
	}
	if h, err := report.New(s, report.Options{}).Health(ctx); k.known("reports", err) {
		f.Reports = &client.ReportFacts{Since: h.Since.Time(), Until: h.Until.Time(), Open: h.Open, Failed: h.Failed, FailedAt: h.FailedAt}
	}
	channels, err := s.ListChannels(ctx)
	for i := range channels {
		if err := channels[i].Locked(); err != nil {
			f.LockedChannels = append(f.LockedChannels, client.UnreadableApp{Name: channels[i].Name, Message: k.said(err)})
		}
	}
	if k.known("channels", err) {
		troubled, err := api.Troubles(ctx, &engine.Nouns{Store: s}, channels)
		k.known("notifications", err)
		for _, name := range slices.Sorted(maps.Keys(troubled)) {
			f.TroubledChannels = append(f.TroubledChannels, *troubled[name])
		}
	}
	k.apps(ctx, g)
}

// firstDue returns the earliest time in a partition of the due index; 0: there is none. Jobs that
// cannot be read stay due, and are not a sign of late planning.
func (k *gathering) firstDue(ctx context.Context, partition int) (core.Instant, error) {
	var after core.DueItem
	for range maxUnreadable {
		list, err := k.s.Jobs.Due(ctx, partition, core.InstantOf(k.now), after, 1)
		if err != nil || len(list) == 0 {
			return 0, err
		}
		after = list[0]
		if after.Run != 0 {
			return after.PlanAt, nil
		}
		jobs, err := k.s.Jobs.Get(ctx, store.Planning, []core.JobID{after.Job})
		if bad := jobs[after.Job].Err; err != nil || bad == nil || errors.Is(bad, core.ErrThrottled) {
			return after.PlanAt, err
		}
	}
	return 0, nil
}

func (k *gathering) depth(ctx context.Context, what string, kind ring.Kind) *client.Depth {
	due, waiting, inFlight, err := k.s.Queue.Depth(ctx, kind)
	if !k.known(what, err) {
		return nil
	}
	return &client.Depth{Due: due, Waiting: waiting, InFlight: inFlight}
}

// apps adds apps and registered executors.
func (k *gathering) apps(ctx context.Context, g core.Global) {
	values, err := k.s.ListApps(ctx)
	apps := make([]core.App, 0, len(values))
	for i := range values {
		switch v := &values[i]; {
		case errors.Is(v.Err, core.ErrThrottled):
			err = v.Err
		case v.Err != nil:
			k.f.UnreadableApps = append(k.f.UnreadableApps, client.UnreadableApp{Name: v.Name, Message: k.said(v.Err)})
		default:
			apps = append(apps, v.Is)
		}
	}
	if !k.known("apps", err) || len(apps) == 0 {
		return
	}
	names := make([]string, len(apps))
	for i := range apps {
		names[i] = apps[i].Name
		if core.KnownToken(apps[i].Token) {
			k.f.KnownTokens = append(k.f.KnownTokens, names[i])
		}
	}
	stored, err := k.s.Executors(ctx, names)
	if !k.known("executors", err) {
		return
	}
	for i := range apps {
		views := query.ExecutorsOf(&apps[i], stored[names[i]], g, k.now, core.BeatExpiry)
		for v := range views {
			if len(k.f.Executors) == maxExecutors {
				return
			}
			if views[v].Used {
				k.f.Executors = append(k.f.Executors, api.ExecutorOf(names[i], &views[v], k.answer))
			}
		}
	}
}
