// Package api is the HTTP API for users and programs under /v1: the OpenAPI document, the server generated from it,
// authentication, and the format of errors. It translates requests for package manage.
//
// NewHandler, the types of the document and the conversions between those and core are internal to this repository.
// Other programs use package client.
package api

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-server.yaml openapi.yaml
//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-client.yaml openapi.yaml
