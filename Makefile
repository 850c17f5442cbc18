# The commands of CONTRIBUTING.md. .ci/run runs all suites.
GO ?= go

.PHONY: build test lint english race sim browser pictures snapshot ci

build: ## The binary ./tickring
	CGO_ENABLED=0 $(GO) build -trimpath -o tickring ./cmd/tickring

test: ## All tests that need Go alone
	$(GO) test ./...

lint:
	for m in . test infra; do (cd $$m && $(GO) tool -modfile=$(CURDIR)/tools/go.mod golangci-lint run) || exit 1; done

english: ## The rules for texts: documentation, translation keys, comments
	bash tools/check-english.sh

race:
	$(GO) test -race -timeout 40m -short ./...

sim: ## The simulation, in memory and over DynamoDB and SQS in memory
	$(GO) test -timeout 40m -run 'TestWorlds$$' ./internal/testkit/sim -sim.fires=32000
	$(GO) test -timeout 40m -run 'TestWorlds$$' ./internal/testkit/sim -sim.fires=3000 -sim.worlds=10 -sim.engine=aws

browser: ## The console in Chromium, with the variable that test/browser/fetch.sh prints
	cd test && env "$$(browser/fetch.sh /tmp/tickring-axe)" $(GO) test -timeout 30m ./browser

pictures: ## The pictures of the documentation, from serve --demo in Chromium
	cd test && $(GO) test -count=1 -timeout 15m -run 'TestDocPictures$$' ./browser -docs $(CURDIR)/docs/pictures

snapshot: ## All packages of a release, in dist
	packaging/snapshot.sh

ci:
	.ci/run
