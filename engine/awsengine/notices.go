package awsengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
)

// noticeOf lists the states of notifications, lookOf the times at which they must be checked.
const (
	noticeOf = "notice"
	lookOf   = "look"
)

func (s *Store) Notices(ctx context.Context, names []string) (map[string]notification.State, error) {
	keys := make([]item, len(names))
	for i, name := range names {
		keys[i] = stateKey(noticeOf, name)
	}
	found := make(map[string]notification.State, len(names))
	err := s.getAll(ctx, s.o.Names.State, keys, func(it item) error {
		n := notification.State{Name: stringOf(it, "key")}
		v, err := intOf(it, "v")
		if n.V = v; err == nil {
			err = json.Unmarshal([]byte(stringOf(it, "body")), &n)
		}
		if err != nil {
			return fmt.Errorf("read notices of %s: %w", n.Name, err)
		}
		found[n.Name] = n
		return nil
	})
	return found, err
}

func (s *Store) PutNotices(ctx context.Context, list []notification.State) []error {
	errs := make([]error, len(list))
	s.parallel(len(list), func(i int) {
		n := &list[i]
		it := stateKey(noticeOf, n.Name)
		it["v"], it["body"] = number(n.V), text(jsonText(n))
		if until := n.Keep(); !until.IsZero() {
			it["expires"] = number(until.Unix())
		}
		errs[i] = s.putIf(ctx, it, was("v", n.V-1))
	})
	return errs
}

func lookKey(l ring.CheckRequest) item {
	return stateKey(lookOf, fmt.Sprintf("%010d#%d", l.At, l.Job))
}

func (s *Store) PutLooks(ctx context.Context, looks []ring.CheckRequest) error {
	keys := make([]item, len(looks))
	writes := make([]types.WriteRequest, len(looks))
	for i, l := range looks {
		keys[i] = lookKey(l)
		it := lookKey(l)
		it["job"] = number(int64(l.Job))
		writes[i] = types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}
	}
	return errors.Join(s.batchWrite(ctx, s.o.Names.State, writes, textsOf(keys))...)
}

func (s *Store) DropLooks(ctx context.Context, looks []ring.CheckRequest) error {
	keys := make([]item, len(looks))
	for i, l := range looks {
		keys[i] = lookKey(l)
	}
	return s.deleteAll(ctx, keys)
}

func (s *Store) DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.CheckRequest, error) {
	var list []ring.CheckRequest
	e := equal("of", text(lookOf))
	e.test("key", "<", text(fmt.Sprintf("%010d", upTo+1)))
	in := e.query(s.o.Names.State)
	in.Limit = aws.Int32(int32(limit))
	err := s.query(ctx, in, func(it item) (bool, error) {
		key := stringOf(it, "key")
		if len(key) < 12 {
			return false, fmt.Errorf("look %q is none", key)
		}
		at, err := strconv.ParseInt(key[:10], 10, 64)
		job, err2 := strconv.ParseInt(key[11:], 10, 32)
		list = append(list, ring.CheckRequest{At: core.Instant(at), Job: core.JobID(job)})
		return len(list) < limit, errors.Join(err, err2)
	})
	return list, err
}
