package traces

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tickring/tickring/core"
)

// environment holds the variables of OpenTelemetry that are read here: whether there are
// traces, values that the SDK would silently ignore, and values without an SDK option. The SDK
// reads the rest.
type environment struct {
	client  *http.Client
	sampler sdktrace.Sampler
}

const prefix = "OTEL_EXPORTER_OTLP_"

// read checks the environment; nil if it asks for no traces.
func read(getenv func(string) string) (*environment, error) {
	// of returns a variable of the exporter: the one for traces, or else the one for all signals.
	of := func(name string) (variable, value string) {
		if v := getenv(prefix + "TRACES_" + name); v != "" {
			return prefix + "TRACES_" + name, v
		}
		return prefix + name, getenv(prefix + name)
	}
	variable, endpoint := of("ENDPOINT")
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if endpoint == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	if exporter != "" && exporter != "otlp" {
		return nil, core.Invalid("OTEL_TRACES_EXPORTER", exporter, "otlp and none are allowed")
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, core.Invalid(variable, "", "the URL of a collector such as http://127.0.0.1:4318 is expected, without user and query: "+
			"set credentials in OTEL_EXPORTER_OTLP_HEADERS")
	}
	if name, v := of("PROTOCOL"); v != "" && v != "http/protobuf" && v != "http/json" {
		return nil, core.Invalid(name, v, "allowed values: http/protobuf and http/json; if the collector uses gRPC, set the URL to its HTTP "+
			"port, 4318")
	}
	if name, v := of("COMPRESSION"); v != "" && v != "none" && v != "gzip" {
		return nil, core.Invalid(name, v, "gzip and none are allowed")
	}
	timeout := 10 * time.Second
	if name, v := of("TIMEOUT"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > math.MaxInt32 {
			return nil, core.Invalid(name, v, "a number of milliseconds is expected")
		}
		timeout = time.Duration(n) * time.Millisecond
	}
	if name, v := of("HEADERS"); v != "" {
		for part := range strings.SplitSeq(v, ",") {
			if key, _, ok := strings.Cut(part, "="); !ok || strings.TrimSpace(key) == "" {
				return nil, core.Invalid(name, "", "name=value,name=value is expected") // it may hold a secret
			}
		}
	}
	e := &environment{}
	if e.sampler, err = samplerOf(getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		return nil, err
	}
	config, err := tlsOf(of)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	e.client = &http.Client{Transport: transport, Timeout: timeout,
		// A redirect would get the headers, and one to a GET swallows the spans with a 200.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return e, nil
}

// samplerOf returns a sampler that uses only the ID of a trace, so that the spans of a run,
// which different processes make, are all kept or none. A run has no parent elsewhere, so
// "parentbased" adds nothing.
func samplerOf(name, arg string) (sdktrace.Sampler, error) {
	switch strings.TrimPrefix(cmp.Or(name, "always_on"), "parentbased_") {
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		f, err := strconv.ParseFloat(cmp.Or(arg, "1"), 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return nil, core.Invalid("OTEL_TRACES_SAMPLER_ARG", arg, "a number from 0 to 1 is expected")
		}
		return sdktrace.TraceIDRatioBased(f), nil
	}
	return nil, core.Invalid("OTEL_TRACES_SAMPLER", name, "always_on, always_off and traceidratio are allowed, each also as parentbased_…")
}

// tlsOf returns the TLS settings of the environment; nil: none.
func tlsOf(of func(name string) (variable, value string)) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, file := of("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, core.Invalid(name, file, "cannot be read: %v", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, core.Invalid(name, file, "a PEM file with certificates is expected")
		}
	}
	if name, file := of("CLIENT_CERTIFICATE"); file != "" {
		_, key := of("CLIENT_KEY")
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, core.Invalid(name, file, "expected a PEM file with a certificate, and the file of its key in "+
				"OTEL_EXPORTER_OTLP_CLIENT_KEY: %v",
				err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
