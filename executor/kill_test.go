package executor

func child() bool { return false }
