package lambdaboot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/store"
)

// parameters holds the SSM methods in use.
type parameters interface {
	GetParameter(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
	PutParameter(context.Context, *ssm.PutParameterInput, ...func(*ssm.Options)) (*ssm.PutParameterOutput, error)
}

// Limits of the time to read a secret. An AWS account allows 40 reads in each second, and many functions that start together read
// at once. With these limits, hundreds of functions succeed.
const (
	secretAttempt = 3 * time.Second  // timeout of one request
	secretWithin  = 20 * time.Second // maximum time for all attempts of one caller
	// secretBackoffMin is the first delay between attempts, which doubles up to secretBackoffMax; half of each delay is random.
	secretBackoffMin, secretBackoffMax = 500 * time.Millisecond, 4 * time.Second
)

// secret is a parameter that is read when first needed, and then cached. An error is returned only to its caller: the next
// one reads again.
type secret struct {
	params parameters
	name   string
	check  func(name, value string) error
	create func(context.Context) error // creates the parameter if it is missing; nil: another function does
	turn   chan struct{}               // holds one value: the sender owns the fields below
	value  string
	err    error // of the last read
	tries  int
	next   time.Time // no read before this time
}

func newSecret(params parameters, name string, create func(context.Context) error) *secret {
	return &secret{params: params, name: name, check: core.CheckToken, create: create, turn: make(chan struct{}, 1)}
}

// creator returns the function that creates the missing ones of the parameters in p.Create, in their order, with random
// values. The first function that creates a parameter wins. It creates no secret key if there are records, because their secrets need
// the key that is missing. It returns nil if p.Create is empty.
func creator(params parameters, p *Params, blank func(context.Context) (bool, error)) func(context.Context) error {
	if p.Create == "" {
		return nil
	}
	return func(ctx context.Context) error {
		for name := range strings.SplitSeq(p.Create, ",") {
			if name == p.SecretKey {
				if is, err := blank(ctx); err != nil {
					return fmt.Errorf("the parameter %s cannot be created: %w", name, err)
				} else if !is {
					continue
				}
			}
			in := &ssm.PutParameterInput{Name: &name, Type: types.ParameterTypeSecureString,
				Value: aws.String(strings.TrimSpace(secretbox.NewKey())), Description: aws.String("A token or key of tickring")}
			if p.SecretKMS != "" {
				in.KeyId = &p.SecretKMS
			}
			_, err := params.PutParameter(ctx, in)
			if _, exists := errors.AsType[*types.ParameterAlreadyExists](err); err != nil && !exists {
				return fmt.Errorf("the parameter %s cannot be created: %w", name, err)
			}
		}
		return nil
	}
}

// get returns the secret; empty for a nil one. It waits while reads fail for a temporary reason.
func (s *secret) get(ctx context.Context) (string, error) {
	if s == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, secretWithin)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("read the parameter %s: %w", s.name, ctx.Err())
	}
	for s.value == "" {
		if s.err != nil && !passing(s.err) && time.Now().Before(s.next) {
			return "", s.err
		}
		if !store.Sleep(ctx, time.Until(s.next)) || ctx.Err() != nil {
			return "", errors.Join(s.err, fmt.Errorf("read the parameter %s: %w", s.name, ctx.Err()))
		}
		value, err := s.ask(ctx)
		if errors.Is(err, errMissing) && s.create != nil {
			if err = s.create(ctx); err == nil {
				value, err = s.ask(ctx)
			}
		}
		if err != nil && ctx.Err() != nil { // this caller ended, which is no failure of the secret
			return "", errors.Join(s.err, err)
		}
		if s.value, s.err = value, err; err != nil {
			wait := min(secretBackoffMin<<min(s.tries, 10), secretBackoffMax)
			s.next, s.tries = time.Now().Add(wait/2+rand.N(wait/2)), s.tries+1
		}
	}
	return s.value, nil
}

var errMissing = errors.New("does not exist: the functions `api` and `tick` create the parameter when they start")

// ask reads once: get spreads retries over all callers.
func (s *secret) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, secretAttempt)
	defer cancel()
	out, err := s.params.GetParameter(ctx, &ssm.GetParameterInput{Name: &s.name, WithDecryption: aws.Bool(true)},
		func(o *ssm.Options) { o.Retryer = aws.NopRetryer{} })
	var missing *types.ParameterNotFound
	switch {
	case errors.As(err, &missing):
		return "", fmt.Errorf("the parameter %s %w", s.name, errMissing)
	case err != nil:
		return "", fmt.Errorf("read the parameter %s: %w", s.name, err)
	case out.Parameter == nil:
		return "", fmt.Errorf("the parameter %s has no value", s.name)
	}
	text := aws.ToString(out.Parameter.Value)
	if err := s.check("the parameter "+s.name, text); err != nil {
		return "", err
	}
	return text, nil
}

// passing reports whether the same read may succeed after this error.
func passing(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrThrottled) ||
		retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}
