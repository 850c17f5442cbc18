package console

// home is what needs somebody now.
func (a *ask) home() (any, error) { return nil, nil }
