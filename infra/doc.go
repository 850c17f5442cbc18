// Package infra deploys tickring on AWS: a construct for any CDK app, [NewScheduler], and a stack around it, [NewTickringStack]. It
// is a public API. Props that contradict each other are rejected with a message when the app is synthesized, before any deployment.
package infra
