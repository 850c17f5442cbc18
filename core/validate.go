package core

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	MaxJob       = 256 << 10 // bytes of a job definition as JSON; an encrypted definition also fits an item of DynamoDB
	MaxParams    = 64 << 10  // bytes
	MaxTitle     = 256       // characters
	MaxLabels    = 32
	MaxLabelKey  = 63  // bytes
	MaxLabel     = 256 // characters
	MaxHandler   = 512 // bytes
	MaxRules     = 16  // rules in a schedule
	MaxExpr      = 256 // bytes
	MaxZone      = 64  // bytes of a time zone, and of a schedule's from and until
	MaxAddress   = 512 // bytes
	MaxAddresses = 1000
	MaxAllow     = 64
	MaxToken     = 256 // bytes
	MaxSet       = 128 // bytes
	MaxKey       = 128 // bytes

	day           = 24 * time.Hour
	MaxTimeout    = 7 * day // well below the 20 days of retention of journals
	MaxGrace      = day
	MaxDeadline   = 30 * day
	MaxRetries    = 100
	MaxDelay      = day       // delay between attempts
	MaxAhead      = 366 * day // time from a trigger to the due time of the run
	MaxPauseAfter = 100
	MinLostAfter  = time.Minute
	MaxLostAfter  = 30 * day
	MaxWait       = day // time that a run waits for an executor
	MaxKeepDays   = 3650

	MaxNotifyTo   = 10 // channels
	MinQuiet      = time.Minute
	MaxQuiet      = 7 * day
	MinSlow       = time.Minute
	MinNotifyLate = time.Second
	MinOverdue    = time.Minute
	MaxOverdue    = 366 * day
)

// Normalize sets defaults, and converts values that can be written in several ways to one form. So jobs with equal
// meaning become equal.
func (j *Job) Normalize() {
	d, s := &j.Def, &j.Sched
	s.ID, s.App = d.ID, d.App
	d.Call, d.Command = d.Call.Normal(), d.Command.Normal()
	fill(&s.State, Started)
	fill(&s.Misfire, MisfireLatest)
	fill(&s.Grace, 60*time.Second)
	if s.Schedule.Timezone == "UTC" {
		s.Schedule.Timezone = ""
	}
	if len(s.Schedule.Any) == 0 {
		s.Schedule.Any = nil
	}
	if len(d.Labels) == 0 {
		d.Labels = nil
	}
	fill(&d.Route, RouteFirst)
	if d.Route == RouteBroadcast {
		fill(&d.BroadcastFail, BroadcastFailAny)
	}
	fill(&d.Block, BlockSerial)
	fill(&d.LostAfter, 10*time.Minute)
	fill(&d.Keep.Days, KeepDays)
	d.Keep.Log = d.Keep.Kept()
	fill(&d.Retry.Delay, 30*time.Second)
	d.Overlap = d.Overlap.Normal()
	d.Notify = d.Notify.Normal()
	if d.Children = nil; len(d.After) == 0 {
		d.After = nil
	}
	d.After = slices.Clone(d.After)
	for i := range d.After {
		fill(&d.After[i].When, UponSuccess)
	}
	fill(&d.Retry.Backoff, BackoffConstant)
	if len(d.Retry.On) == 0 {
		d.Retry.On = []State{Failed, TimedOut}
		return
	}
	d.Retry.On = inOrder(d.Retry.On, RetryOns)
}

// inOrder returns the distinct known values of list in the order of known, followed by the unknown values, which
// Validate rejects.
func inOrder[T comparable](list, known []T) []T {
	out := make([]T, 0, len(list))
	for _, v := range known {
		if slices.Contains(list, v) {
			out = append(out, v)
		}
	}
	for _, v := range list {
		if !slices.Contains(known, v) {
			out = append(out, v)
		}
	}
	return out
}

// Normal returns n with the events in On sorted and without duplicates. Unknown events stay, and Validate rejects
// them.
func (n Notify) Normal() Notify {
	if len(n.To) == 0 {
		n.To = nil
	}
	if len(n.On) == 0 {
		n.On = nil
		return n
	}
	n.On = inOrder(n.On, Events)
	return n
}

// Validate returns an error with the path of a field, beginning with path, if the field has an invalid value. It does
// not check that the channels exist.
func (n Notify) Validate(path string) error {
	if len(n.To) > MaxNotifyTo {
		return Invalid(path+".to", strconv.Itoa(len(n.To)), "at most %d channels are allowed", MaxNotifyTo)
	}
	for i, name := range n.To {
		field := fmt.Sprintf("%s.to[%d]", path, i)
		if err := cmp.Or(CheckName(field, name), when(slices.Contains(n.To[:i], name), Invalid(field, name, "named twice"))); err != nil {
			return err
		}
	}
	for i, e := range n.On {
		switch field := fmt.Sprintf("%s.on[%d]", path, i); {
		case slices.Contains(EventsNotYet, e):
			return Invalid(field, string(e), "not supported: planned for a later version")
		case !slices.Contains(Events, e):
			return Invalid(field, string(e), "allowed values: %s", JoinAllowed(Events))
		}
	}
	said := func(e Event) bool { return len(n.On) == 0 || slices.Contains(n.On, e) }
	for _, f := range []struct {
		name  string
		of    Event
		d     time.Duration
		least time.Duration
		most  time.Duration
	}{
		{"late", EventLate, n.Late, MinNotifyLate, MaxGrace},
		{"slow", EventSlow, n.Slow, MinSlow, MaxTimeout},
		{"quiet", "", n.Quiet, MinQuiet, MaxQuiet},
		{"overdue.within", EventOverdue, n.Overdue.Within, MinOverdue, MaxOverdue},
	} {
		switch {
		case f.d == 0:
		case f.d < f.least || f.d > f.most || f.d%time.Second != 0:
			return Invalid(path+"."+f.name, FormatDuration(f.d), "allowed values: whole seconds from %s to %s",
				FormatDuration(f.least), FormatDuration(f.most))
		case f.of != "" && !said(f.of):
			return Invalid(path+"."+f.name, FormatDuration(f.d), "`on` does not include %s: add this event to `on`, or leave "+
				"this field out", f.of)
		}
	}
	if by := n.Overdue.By; by != "" {
		switch _, _, ok := n.Overdue.Clock(); {
		case !ok:
			return Invalid(path+".overdue.by", by, `expected a time of day, such as "06:00"`)
		case n.Overdue.Within != 0:
			return Invalid(path+".overdue", by, "use either `by` or `within`, not both")
		case !said(EventOverdue):
			return Invalid(path+".overdue.by", by, "`on` does not include %s: add this event to `on`, or leave this field out", EventOverdue)
		}
	}
	switch {
	case slices.Contains(n.On, EventSlow) && n.Slow == 0:
		return Invalid(path+".on", string(EventSlow), "set a duration, such as `slow: 45m`")
	case slices.Contains(n.On, EventOverdue) && n.Overdue == Overdue{}:
		return Invalid(path+".on", string(EventOverdue), `set a time, such as overdue: {by: "06:00"} or {within: 26h}`)
	}
	return nil
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns an error with the path of a field if the field of a normalized job has an invalid value. Validate
// checks only the lengths of texts in the schedule. Package schedule checks the rest of the schedule, and
// App.CheckHandler checks the handler.
func (j *Job) Validate() error {
	d, s := &j.Def, &j.Sched
	if err := cmp.Or(
		CheckAppName("app", d.App),
		CheckName("name", d.Name),
		d.validateTexts(),
		d.Call.validate(),
		d.Command.validate(),
		s.Schedule.validate(),
		oneOf("misfire", s.Misfire, Misfires),
		oneOf("route", d.Route, Routes),
		oneOf("block", d.Block, Blocks),
		d.Overlap.validate(),
		d.validateBroadcast(),
		d.Retry.validate(),
		d.validateAfter(),
		d.Notify.Validate("notify"),
		when(d.PauseAfter < 0 || d.PauseAfter > MaxPauseAfter,
			Invalid("pauseAfter", strconv.Itoa(d.PauseAfter), "allowed values: 1 to %d failures in a row", MaxPauseAfter)),
		bounded("grace", s.Grace, time.Second, MaxGrace),
		bounded("deadline", s.Deadline, 0, MaxDeadline),
		bounded("timeout", d.Timeout, 0, MaxTimeout),
		bounded("lostAfter", d.LostAfter, MinLostAfter, MaxLostAfter),
		bounded("waitForExecutor", d.WaitForExecutor, 0, MaxWait),
	); err != nil {
		return err
	}
	if n := len(marshal(d)); n > MaxJob {
		return Invalid("job", strconv.Itoa(n)+" bytes", "at most %d bytes of JSON are allowed", MaxJob)
	}
	if d.Keep.Days != KeepForever && (d.Keep.Days < 1 || d.Keep.Days > MaxKeepDays) {
		return Invalid("retention.days", strconv.Itoa(d.Keep.Days), "allowed values: 1 to %d; 0 keeps them forever", MaxKeepDays)
	}
	return when(d.Keep.Log != "", oneOf("retention.log", d.Keep.Log, KeepLogs))
}

// when returns err if the condition is true, else nil. It is for lists of checks in the arguments of cmp.Or.
func when(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}

func (d *Def) validateTexts() error {
	if err := cmp.Or(
		text("title", d.Title, MaxTitle),
		text("author", d.Author, MaxTitle),
		CheckSet("set", d.Set),
		atMost("labels", len(d.Labels), "labels", MaxLabels),
	); err != nil {
		return err
	}
	for key, value := range d.Labels {
		if key == "" || len(key) > MaxLabelKey || !printable(key) || strings.ContainsAny(key, "=, ") {
			return Invalid("labels", key, "a label name has 1 to %d printable ASCII characters without space, comma and =", MaxLabelKey)
		}
		if err := text("labels."+key, value, MaxLabel); err != nil {
			return err
		}
	}
	if err := d.validateScript(); err != nil {
		return err
	}
	if d.Command != nil {
		if err := d.validateCommand(); err != nil {
			return err
		}
	} else if d.Handler == "" && d.Script == nil {
		return Invalid("handler", "", "required: the handler that the executor runs")
	}
	if err := cmp.Or(
		when(len(d.Handler) > MaxHandler, Invalid("handler", d.Handler, "%d bytes; at most %d are allowed", len(d.Handler), MaxHandler)),
		text("handler", d.Handler, MaxHandler),
		when(strings.TrimSpace(d.Handler) != d.Handler, Invalid("handler", d.Handler, "remove the surrounding spaces")),
		CheckParams("params", d.Params),
	); err != nil || !d.Template {
		return err
	}
	t, err := ParseTemplate(d.Params)
	if err != nil {
		return err
	}
	return t.checkParent()
}

// Normal returns o with defaults for empty fields.
func (o Overlap) Normal() Overlap {
	if o.Limit > 0 {
		fill(&o.Full, FullQueue)
		if o.Full != FullReplace {
			fill(&o.Max, QueueIfUnsaid)
		}
	}
	return o
}

func (l Limits) validate() error {
	check := func(field string, n int) error {
		return when(n < 0 || n > MaxLimit, Invalid(field, strconv.Itoa(n), "1 to %d are allowed", MaxLimit))
	}
	return cmp.Or(check("limits.inFlight", l.InFlight), check("limits.perSecond", l.PerSecond))
}

func (o *Overlap) validate() error {
	if *o == (Overlap{}) {
		return nil
	}
	return cmp.Or(
		when(o.Limit < 1 || o.Limit > MaxLimit, Invalid("overlap.limit", strconv.Itoa(o.Limit), "1 to %d are allowed", MaxLimit)),
		when(o.Max < 0 || o.Max > MaxQueue,
			Invalid("overlap.max", strconv.Itoa(o.Max), "allowed values: 1 to %d waiting runs", MaxQueue)),
		when(o.Group != "", CheckName("overlap.group", o.Group)),
		checkPointer("overlap.key", o.Key),
		when(o.Full == FullReplace && o.Max != 0, Invalid("overlap.max", strconv.Itoa(o.Max),
			"leave this field out: with `whenFull: replace`, at most `limit` runs wait, and the newest runs are kept")),
		oneOf("overlap.whenFull", o.Full, Fulls),
	)
}

// CheckParams returns an error if the params of a job or run are too long or not UTF-8. field is the name of the
// input field for the error.
func CheckParams(field, params string) error {
	if len(params) > MaxParams {
		e := Invalid(field, "", "%d bytes; at most %d (64 KB) are allowed", len(params), MaxParams)
		e.Code = CodeTooLarge
		return e
	}
	if !utf8.ValidString(params) {
		return Invalid(field, "", "not UTF-8")
	}
	return nil
}

func CheckSet(field, set string) error {
	if len(set) > MaxSet || !printable(set) {
		return Invalid(field, set, "the name of a set can have at most %d printable ASCII characters", MaxSet)
	}
	return nil
}

func (r Retry) validate() error {
	if err := cmp.Or(
		when(r.Max < 0 || r.Max > MaxRetries, Invalid("retry.max", strconv.Itoa(r.Max), "allowed values: 0 to %d", MaxRetries)),
		bounded("retry.delay", r.Delay, time.Second, MaxDelay),
		oneOf("retry.backoff", r.Backoff, Backoffs),
		bounded("retry.maxDelay", r.MaxDelay, 0, MaxDelay),
		when(r.MaxDelay != 0 && r.MaxDelay < r.Delay,
			Invalid("retry.maxDelay", FormatDuration(r.MaxDelay), "shorter than `retry.delay`, %s", FormatDuration(r.Delay))),
	); err != nil {
		return err
	}
	for _, on := range r.On {
		if err := oneOf("retry.on", on, RetryOns); err != nil {
			return err
		}
	}
	return nil
}

// atMost returns an error if a list with n elements of a kind is too long.
func atMost(field string, n int, kind string, most int) error {
	return when(n > most, Invalid(field, strconv.Itoa(n)+" "+kind, "at most %d are allowed", most))
}

// validate checks the lengths; package schedule checks the rest.
func (s Schedule) validate() error {
	if err := atMost("schedule", len(s.Any), "rules", MaxRules); err != nil {
		return err
	}
	for i, w := range s.Any {
		if len(w.Expr) > MaxExpr {
			field := "schedule."
			if len(s.Any) > 1 {
				field = fmt.Sprintf("schedule[%d].", i)
			}
			return Invalid(field+string(w.Kind), w.Expr, "%d bytes; at most %d are allowed", len(w.Expr), MaxExpr)
		}
	}
	for _, t := range []struct{ field, text string }{{"timezone", s.Timezone}, {"from", s.From}, {"until", s.Until}} {
		if len(t.text) > MaxZone {
			return Invalid("schedule."+t.field, t.text, "at most %d bytes are allowed", MaxZone)
		}
	}
	return nil
}

// bounded returns an error unless d is a whole number of seconds from least to most.
func bounded(field string, d, least, most time.Duration) error {
	if d < least || d > most || d%time.Second != 0 {
		return Invalid(field, FormatDuration(d), "allowed values: whole seconds from %s to %s", FormatDuration(least), FormatDuration(most))
	}
	return nil
}

func oneOf[T ~string](field string, value T, allowed []T) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return Invalid(field, string(value), "allowed values: %s%s", JoinAllowed(allowed), XXLEquivalent(string(value)))
}

// XXLEquivalent returns the end of an error message: the tickring name for a value or field name of xxl-job. It
// returns the zero Text for other words.
func XXLEquivalent(word string) Text {
	if here, ok := fromXXL[word]; ok {
		return Say("; xxl-job's %s is %s in tickring", word, here)
	}
	return Text{}
}

var fromXXL = map[string]string{
	"SERIAL_EXECUTION": "block: serial", "DISCARD_LATER": "block: discard-later", "COVER_EARLY": "block: cover-early",
	"FIRST": "route: first", "LAST": "route: last", "ROUND": "route: round", "RANDOM": "route: random", "CONSISTENT_HASH": "route: hash",
	"LEAST_FREQUENTLY_USED": "route: lfu", "LEAST_RECENTLY_USED": "route: lru", "FAILOVER": "route: failover", "BUSYOVER": "route: busyover",
	"SHARDING_BROADCAST": "route: broadcast",
	"DO_NOTHING":         "misfire: skip", "FIRE_ONCE_NOW": "misfire: latest",
	"CRON": "schedule: {cron: …}", "FIX_RATE": "schedule: {every: …}", "FIX_DELAY": "schedule: {fixedDelay: …}",
	"NONE": "a job without a schedule", "BEAN": "handler: NAME",
	"executorRouteStrategy": "route", "executorBlockStrategy": "block", "misfireStrategy": "misfire", "executorHandler": "handler",
	"executorParam": "params", "executorTimeout": "timeout", "executorFailRetryCount": "retry: {max: …}",
	"scheduleType": "the field of schedule: cron, every or fixedDelay",
	"scheduleConf": "schedule: {cron: …}, {every: …} or {fixedDelay: …}",
	"childJobId":   childXXL, "children": childXXL,
	"glueType":   "handler: NAME for BEAN, " + scriptXXL + " for GLUE_SHELL",
	"glueSource": scriptXXL, "glueRemark": "the note of the script", "GLUE_GROOVY": "script: {kind: groovy, …}",
	"GLUE_SHELL": "script: {kind: shell, …}", "GLUE_PYTHON": "script: {kind: python, …}", "GLUE_NODEJS": "script: {kind: nodejs, …}",
	"GLUE_PHP": "script: {kind: php, …}", "GLUE_POWERSHELL": "script: {kind: powershell, …}",
	"jobDesc": "title", "appname": "app (in apps: name)", "addressList": "executors of the app", "triggerStatus": "paused",
	"alarmEmail": "notify: {to: [CHANNEL]}",
}

const (
	childXXL  = "after: [{job: APP/NAME, when: succeeded}] of the child"
	scriptXXL = "script: {kind: shell, file: FILE}"
)

// JoinAllowed returns a list of allowed values for messages and help texts: "a, b, c".
func JoinAllowed[T ~string](list []T) string {
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

func text(field, s string, characters int) error {
	if n := utf8.RuneCountInString(s); n > characters {
		return Invalid(field, s, "%d characters; at most %d are allowed", n, characters)
	}
	if !utf8.ValidString(s) {
		return Invalid(field, "", "not UTF-8")
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return Invalid(field, s, "control characters are not allowed")
		}
	}
	return nil
}

// printable reports whether s is ASCII without control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Validate returns an error with the path of a field if the field of the app has an invalid value.
func (a *App) Validate() error {
	if err := cmp.Or(
		CheckAppName("name", a.Name),
		text("title", a.Title, MaxTitle),
		CheckSet("set", a.Set),
		when(len(a.Token) > MaxToken || !printable(a.Token) || strings.TrimSpace(a.Token) != a.Token,
			Invalid("token", "", "a token can have at most %d printable ASCII characters, without surrounding spaces", MaxToken)),
		atMost("executors", len(a.Executors), "addresses", MaxAddresses),
	); err != nil {
		return err
	}
	for i, address := range a.Executors {
		field := fmt.Sprintf("executors[%d]", i)
		if _, _, err := ParseAddress(address); err != nil {
			return at(err, field)
		}
		if slices.Index(a.Executors, address) != i {
			return Invalid(field, address, "named twice")
		}
	}
	if err := atMost("allow", len(a.Allow), "ranges", MaxAllow); err != nil {
		return err
	}
	for i, p := range a.Allow {
		if !p.IsValid() {
			return Invalid(fmt.Sprintf("allow[%d]", i), p.String(), "write a range as 10.0.0.0/8 or fd00::/8")
		}
	}
	return cmp.Or(
		a.Notify.Validate("notify"),
		when(a.Notify.Overdue != Overdue{}, Invalid("notify.overdue", "", "not allowed on an app: set overdue on each job")),
		bounded("waitForExecutor", a.WaitForExecutor, 0, MaxWait),
		a.Overlap.validate(),
		a.Limits.validate(),
		a.Call.validate(),
	)
}

// at returns err with another field if it is an Error.
func at(err error, field string) error {
	if e, ok := err.(*Error); ok {
		c := *e
		c.Field = field
		return &c
	}
	return err
}

// CheckHandler returns an error if the app's executors cannot run the handler. For `call:` executors, the handler
// must be an HTTP method and a path, or only a path. All other executors accept any handler. An empty handler is
// valid.
func (a *App) CheckHandler(handler string) error {
	if handler == "" {
		return nil
	}
	for _, address := range a.Executors {
		if strings.HasPrefix(address, string(SchemeCall)+":") {
			_, _, err := ParseCallHandler(handler)
			return err
		}
	}
	return nil
}

// CheckWork returns an error if the app's executors cannot run the job's handler or script. Scripts run only on
// executors that use the xxl-job protocol.
func (a *App) CheckWork(d *Def) error {
	if d.Script == nil {
		return a.CheckHandler(d.Handler)
	}
	for _, address := range a.Executors {
		if scheme, _, err := ParseAddress(address); err == nil && scheme != SchemeWire {
			return NoScript(string(d.Script.Kind), address)
		}
	}
	return nil
}

// NoScript returns the error for a script of this kind and an executor address that cannot run scripts.
func NoScript(kind, address string) *Error {
	return Invalid("script", kind, "only executors that use the xxl-job protocol can run scripts: %s uses another protocol", address)
}

// CheckRoute returns an error if the app's executors do not support the route. RouteBusyover asks each executor
// whether the executor is busy, and a function or a queue cannot answer.
func (a *App) CheckRoute(route Route) error {
	if route != RouteBusyover {
		return nil
	}
	for _, address := range a.Executors {
		if scheme, _, err := ParseAddress(address); err == nil && (scheme == SchemeLambda || scheme == SchemeQueue) {
			return Invalid("route", string(route),
				"this route asks each executor whether the executor is busy, and %s cannot answer: use %s, which tries the "+
					"next executor after a rejection, or %s", address, RouteFailover, RouteRound)
		}
	}
	return nil
}

var callMethods = []string{"POST", "GET", "PUT", "PATCH", "DELETE"}

// ParseCallHandler splits the handler of a `call:` executor into an HTTP method and a path. The default method is
// POST. The path begins with a slash and can have a query.
func ParseCallHandler(handler string) (method, path string, err error) {
	method, path, found := strings.Cut(handler, " ")
	if !found {
		method, path = "POST", handler
	}
	if !slices.Contains(callMethods, method) {
		return "", "", Invalid("handler", handler,
			`the executors of the app are "call:" addresses: the handler must be "POST /path" or "/path"; allowed methods are %s`, strings.Join(callMethods, ", "))
	}
	u, perr := url.ParseRequestURI(path)
	if perr != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, " #\\") ||
		!printable(path) || u.Host != "" {
		return "", "", Invalid("handler", handler,
			`the executors of the app are "call:" addresses: the handler must be "POST /path" or "/path"; the path starts with one slash, is escaped, and has no fragment`)
	}
	return method, path, nil
}

type Scheme string

const (
	SchemeWire   Scheme = "wire"   // http:// or https://: the xxl-job protocol
	SchemeCall   Scheme = "call"   // call:https://…: a plain HTTP URL
	SchemeLambda Scheme = "lambda" // lambda:<name or ARN>: an AWS Lambda function
	SchemeQueue  Scheme = "queue"  // queue:<name or ARN>: a queue from which executors pull runs
	SchemeLocal  Scheme = "local"  // only for LocalAddress
)

// LocalAddress is the address of the server itself, for jobs with a Command. ParseAddress rejects LocalAddress, so no
// executor can have this address.
const LocalAddress = "local:commands"

// IsQueue reports whether sent runs can wait at the address, because the address is a queue or LocalAddress. The
// timeout of a waiting run begins when an executor or the server takes the run.
func IsQueue(address string) bool {
	return address == LocalAddress || strings.HasPrefix(address, string(SchemeQueue)+":")
}

// addresses is the text about the allowed forms of an address.
var addresses = Say("allowed: http://HOST:PORT or https://… (an xxl-job executor), call:https://… (a plain HTTP endpoint), lambda:NAME " +
	"or lambda:ARN (a function), queue:NAME or queue:ARN (a queue that executors pull from)")

// ParseAddress splits the address of an executor into its scheme and target. The target is a base URL for SchemeWire
// and SchemeCall, and a name or ARN for SchemeLambda and SchemeQueue. ParseAddress does not resolve or check the
// host.
func ParseAddress(raw string) (scheme Scheme, target string, err error) {
	if raw == "" || len(raw) > MaxAddress {
		return "", "", Invalid("address", raw, "an address has 1 to %d bytes; %s", MaxAddress, addresses)
	}
	scheme, target = SchemeWire, raw
	if prefix, rest, found := strings.Cut(raw, ":"); found {
		switch s := Scheme(prefix); s {
		case SchemeCall:
			scheme, target = s, rest
		case SchemeLambda, SchemeQueue:
			if why := nameOrARN(s, rest); why.String() != "" {
				return "", "", Invalid("address", raw, "%s", why)
			}
			return s, rest, nil
		}
	}
	if why := baseURL(target); why.String() != "" {
		return "", "", Invalid("address", raw, "%s; %s", why, addresses)
	}
	return scheme, target, nil
}

// NormalAddress returns the form in which an address is stored and compared. The host is in lower case, and the
// default port and slashes at the end are removed. NormalAddress returns an invalid address unchanged.
func NormalAddress(raw string) string {
	scheme, target, err := ParseAddress(raw)
	if err != nil || scheme != SchemeWire && scheme != SchemeCall {
		return raw
	}
	u, err := url.Parse(target)
	if err != nil {
		return raw
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	target = u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
	if scheme == SchemeCall {
		return string(SchemeCall) + ":" + target
	}
	return target
}

// NormalAddresses returns a copy of the list in which each address is normalized by NormalAddress.
func NormalAddresses(list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = NormalAddress(list[i])
	}
	return list
}

// ARN is a parsed Amazon Resource Name of a function or queue.
type ARN struct {
	Partition, Region, Account string
	Name                       string // name of a function, without its version
	Version                    string // version or alias of a function; may be empty
}

// ParseARN parses the target of a lambda: or queue: address; false if the target is not an ARN but a plain name.
func ParseARN(target string) (ARN, bool) {
	p := strings.Split(target, ":")
	if len(p) < 6 || p[0] != "arn" {
		return ARN{}, false
	}
	a := ARN{Partition: p[1], Region: p[3], Account: p[4], Name: p[5]}
	if p[2] == "lambda" && len(p) >= 7 {
		a.Name = p[6]
		a.Version = strings.Join(p[7:], ":")
	}
	return a, true
}

var (
	functionName = regexp.MustCompile(`^[A-Za-z0-9_-]+(:(\$LATEST|[A-Za-z0-9_-]+))?$`)
	functionARN  = regexp.MustCompile(`^arn:aws[a-z-]*:lambda:[a-z0-9-]{1,32}:[0-9]{12}:function:[A-Za-z0-9_-]+(:(\$LATEST|[A-Za-z0-9_-]+))?$`)
	queueName    = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	queueARN     = regexp.MustCompile(`^arn:aws[a-z-]*:sqs:[a-z0-9-]{1,32}:[0-9]{12}:[A-Za-z0-9_-]+$`)
)

// nameOrARN returns the problem with a function or queue name; empty if it is valid.
func nameOrARN(s Scheme, target string) Text {
	parts, is := ParseARN(target)
	if !is {
		parts.Name, parts.Version, _ = strings.Cut(target, ":")
	}
	switch {
	case s == SchemeLambda && len(parts.Name) <= 64 && len(parts.Version) <= 128 &&
		(functionName.MatchString(target) || functionARN.MatchString(target)):
	case s == SchemeLambda:
		return Say("expected a function name of 1 to 64 letters, digits, - and _, or an ARN, arn:aws:lambda:REGION:ACCOUNT:function:NAME; " +
			"both can end with :ALIAS or :VERSION")
	case len(parts.Name) <= 80 && (queueName.MatchString(target) || queueARN.MatchString(target)):
	case strings.HasSuffix(target, ".fifo"):
		return Say("FIFO queues are not supported, because they deliver the messages of a group one after another; create a standard queue")
	case strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://"):
		return Say("queue URLs are not supported: use queue:NAME, or the queue's ARN, arn:aws:sqs:REGION:ACCOUNT:NAME")
	default:
		return Say("expected a queue name of 1 to 80 letters, digits, - and _, or an ARN, arn:aws:sqs:REGION:ACCOUNT:NAME")
	}
	return Text{}
}

// baseURL returns the problem with a base URL; empty if it is valid.
func baseURL(raw string) Text {
	if !printable(raw) || strings.ContainsAny(raw, ` \`) {
		return Say("the URL has a space, a backslash, or a character that is not printable ASCII")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return Say("not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return Say("not an http or https URL")
	case u.User != nil:
		return Say("the URL has a user name or password")
	case u.Opaque != "" || u.Hostname() == "":
		return Say("the URL has no host")
	case u.RawQuery != "" || u.ForceQuery:
		return Say("the URL has a query")
	case strings.Contains(raw, "#"):
		return Say("the URL has a fragment")
	case strings.HasSuffix(u.Host, ":"):
		return Say("the port is empty")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return Say("the port must be 1 to 65535")
		}
	}
	return Text{}
}

// CheckKey returns an error if the idempotency key of a trigger is invalid. An empty key, which means no key, is
// valid.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return Invalid("key", key, "at most %d bytes are allowed", MaxKey)
	}
	if !printable(key) || strings.Contains(key, " ") {
		return Invalid("key", key, "only printable ASCII characters without spaces are allowed")
	}
	return nil
}

// KnownToken reports whether an app's token is the public default token of xxl-job. The default token is accepted,
// because migrated executors use it, but it causes a warning.
func KnownToken(token string) bool { return token == "default_token" }

// CheckToken returns an error if an API token is too short, is too long or has spaces. Short tokens are not safe,
// because attackers can test guesses of a token offline.
func CheckToken(field, token string) error {
	if len(token) < 20 || len(token) > 512 || strings.ContainsAny(token, " \t\r\n") {
		return Invalid(field, "", "a token needs 20 to 512 random characters without spaces, such as the output of openssl rand -hex 20")
	}
	return nil
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)

func CheckName(field, name string) error {
	if len(name) > 128 || !nameForm.MatchString(name) {
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return Invalid(field, name, "a name can have only a-z 0-9 . _ -: use this text as the title, and choose a short name")
		}
		return Invalid(field, name, "a name has 1 to 128 characters of a-z 0-9 . _ - and starts and ends with a letter or digit")
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= 'a' }) {
		return Invalid(field, name, "a name needs at least one letter, because digits alone are read as a number")
	}
	return nil
}

var appForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// CheckAppName returns an error if name is not a valid app name. Capitals are allowed, because existing xxl-job
// executors use them.
func CheckAppName(field, name string) error {
	if len(name) > 64 || !appForm.MatchString(name) {
		return Invalid(field, name, "an app name has 1 to 64 characters of a-z A-Z 0-9 . _ - and starts and ends with a letter or digit")
	}
	return nil
}
