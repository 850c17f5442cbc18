// Package infra deploys tickring on AWS. [NewScheduler] is a construct for any CDK app, and [NewTickringStack] is a
// stack with this construct. The package is a public API. When a CDK app is synthesized, contradictory props are
// rejected with a message, before any deployment.
package infra
