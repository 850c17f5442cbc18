// Package api is the HTTP interface for people and programs under /v1: the
// OpenAPI document, the server generated from it, who may ask, and how errors
// look. It translates; what is done is package manage's.
//
// NewHandler, the types of the document and the conversions between those and
// core are for this repository; the client for everybody is package client.
package api

//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-server.yaml openapi.yaml
//go:generate go tool -modfile=../tools/go.mod oapi-codegen -config oapi-client.yaml openapi.yaml
