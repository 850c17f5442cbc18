// Package infra is the deployment of tickring on AWS: a construct for anybody's
// CDK app, [NewScheduler], and a stack around it, [NewTickringStack]. It is
// public. Props that contradict each other are refused when the app is
// synthesised, with a sentence; nothing is deployed then.
package infra
