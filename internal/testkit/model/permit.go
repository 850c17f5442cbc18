package model

// ask implements the table "Ask" of section 9 for a fire whose run is stored or not. It repeats
// the read after a rejected write, so the read and the write are one step.
func (g *gen) ask(s state, k, f int, stored bool) {
	d := &s.disp[k]
	nonce, after := d.nonce, s.permits
	if o := int(after.holder) - 1; o >= 0 && o != f && g.over(&s, o) {
		after = permits{holder: after.waits}
	}
	switch fire := uint8(f + 1); {
	case after.holder == fire && !stored:
		after.until, after.past = nonce, d.past
	case after.holder == fire || after.waits == fire:
	case after.holder == 0 && stored:
		after = permits{holder: fire}
	case after.holder == 0:
		after = permits{holder: fire, until: nonce, past: d.past}
	case stored:
		after.waits = fire
	}
	put := func(t *state) bool {
		t.permits = after
		return true
	}
	g.write(s, dispName(k)+" asks for the permit of "+fireName(f), put, func(t *state, a answer) {
		i := &t.disp[k].of[f]
		switch {
		case a == throttled:
			i.is = givenBack
		case a == unknown:
		case t.permits.holder == uint8(f+1):
			i.permit = 1
		case !stored:
			i.is = toQueue
		case i.resend() || t.runs[f].queued == 1:
			i.is = givenBack
		default:
			i.is, i.permit = toQueue, 1
		}
	}, late{what: latePermit, before: s.permits, after: after})
}

// over reports whether a chain has ended, or whether nothing of it is stored and its claim
// cannot come any more.
func (g *gen) over(s *state, f int) bool {
	r := &s.runs[f]
	switch {
	case g.w.OverIsNotSeen:
		return false
	case g.w.TimeFreesPermit && r.is == open && r.past == 1:
		return true
	}
	return r.is > open || r.is == absent && s.permits.past == 1
}

// queue creates the record of a run that waits for a permit, or marks the existing one.
func (g *gen) queue(s state, k, f int) {
	d := &s.disp[k]
	if d.of[f].permit == 1 {
		g.wait(s, k, f)
		return
	}
	g.write(s, dispName(k)+" records that "+fireName(f)+" waits for a permit", g.putClaim(f, 0, 0, d.rev), func(t *state, a answer) {
		t.disp[k].of[f].is = [...]uint8{toLook, toLook, givenBack, toLook}[a]
	}, late{what: lateClaim, fire: uint8(f), rev: d.rev})
}

// resend reports whether the read run may have been sent.
func (i *item) resend() bool { return i.owner != 0 || i.address != 0 }

// holds reports that a fire has the permit, or waits for it.
func (s *state) holds(f int) bool {
	return s.permits.holder == uint8(f+1) || s.permits.waits == uint8(f+1)
}

// release frees the permit of a fire, and gives it to the waiting run. After a throttle, the
// next run that asks for the permit does this.
func (g *gen) release(s state, f int, who string, then func(*state)) {
	after := s.permits
	if after.waits == uint8(f+1) {
		after.waits = 0
	}
	if after.holder == uint8(f+1) {
		after = permits{holder: after.waits}
	}
	g.write(s, who+" frees the permit of "+fireName(f), func(t *state) bool {
		t.permits = after
		return true
	}, func(t *state, a answer) {
		if a != unknown {
			then(t)
		}
	}, late{what: latePermit, before: s.permits, after: after})
}

// afterClosed returns the next step for a fire that is found closed.
func (g *gen) afterClosed(s *state, f int) uint8 {
	if g.w.Limit && s.holds(f) {
		return releasing
	}
	return done
}

// another reports that another fire was sent and is open.
func (s *state) another(f int) bool {
	for o := range s.runs {
		if o != f && s.runs[o].is == open && s.seen[o].arrived != 0 {
			return true
		}
	}
	return false
}
