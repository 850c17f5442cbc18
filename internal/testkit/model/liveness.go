package model

// liveness finds the states from which no good end can be reached by steps
// without a fault: it goes back from the good ends along those steps.
func (x *search[S]) liveness() {
	n := 0
	for i := range x.sets {
		n = max(n, len(x.sets[i].hashes))
	}
	n *= shards
	// The steps, ordered by where they lead.
	start := make([]uint32, n+1)
	for i := range x.sets {
		for _, to := range x.sets[i].to {
			start[to+1]++
		}
	}
	for i := range n {
		start[i+1] += start[i]
	}
	back, at := make([]id, start[n]), make([]uint32, n)
	copy(at, start)
	for i := range x.sets {
		for j, to := range x.sets[i].to {
			back[at[to]] = x.sets[i].from[j]
			at[to]++
		}
		x.sets[i].from, x.sets[i].to = nil, nil
	}
	well := make([]bool, n)
	var queue []id
	for i := range x.sets {
		queue = append(queue, x.sets[i].ends...)
	}
	for _, e := range queue {
		well[e] = true
	}
	for len(queue) > 0 {
		to := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range back[start[to]:start[to+1]] {
			if !well[from] {
				well[from] = true
				queue = append(queue, from)
			}
		}
	}
	first, depth := id(0), -1
	for i := range x.sets {
		level := 0
		for place := range x.sets[i].hashes {
			for level < len(x.sets[i].levels) && place >= x.sets[i].levels[level] {
				level++
			}
			at := id(place)<<1 | id(i)
			if well[at] {
				continue
			}
			x.report.StuckAll++
			if depth < 0 || level < depth {
				first, depth = at, level
			}
		}
	}
	if depth >= 0 {
		x.report.Stuck = x.trace(first, "")
	}
}

// hindrance returns why a state has no good end: the remaining defect in the state nearest to
// rest that it reaches without a fault.
func (x *search[S]) hindrance(s *S) string {
	const enough = 1 << 16
	steps := x.w.moves(false)
	seen, queue := map[S]bool{*s: true}, []S{*s}
	why, rest := "", -1
	for len(queue) > 0 && len(seen) < enough {
		s := queue[0]
		queue = queue[1:]
		if at, here := x.w.rest(&s); at > rest {
			rest, why = at, here
		}
		for _, m := range steps(&s) {
			if !m.fault && !seen[m.to] {
				seen[m.to] = true
				queue = append(queue, m.to)
			}
		}
	}
	return why
}
