package awsengine

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// lookOf lists the times at which notifications must be checked.
const lookOf = "look"

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
