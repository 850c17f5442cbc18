module github.com/tickring/tickring/test

go 1.26.0

require (
	github.com/tickring/tickring v0.0.0
	github.com/xxl-job/xxl-job-executor-go v1.2.0
)

require github.com/go-basic/ipv4 v1.0.0 // indirect

replace github.com/tickring/tickring => ../
