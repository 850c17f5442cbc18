package engine

// Fenced wraps e for the processes of one deployment.
func Fenced(e *Engine, deployment string) *Engine {
	f, s := *e, *e.Store
	s.Deployment = deployment
	f.Store = &s
	return &f
}
