package finish

// NewOver returns a Finish over the ports of a test.
func NewOver(s interface {
	Store
	Watch
	Ring
}, lists bool, o Options) *Finish {
	return newOver(s, s, s, lists, o)
}

// NewWatchdogOver returns a Watchdog over the port of a test.
func NewWatchdogOver(f *Finish, w Watch, p Prober, o WatchOptions) *Watchdog {
	d := NewWatchdog(f, p, o)
	d.w = w
	return d
}
