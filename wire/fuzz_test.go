package wire

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func FuzzDecodeCallback(f *testing.F) {
	for _, s := range []string{
		`[{"logId":7,"logDateTim":1586629003729,"executeResult":{"code":200,"msg":null}}]`,
		`{"callbackList":[{"logId":7,"logDateTime":1586629003729,"handleCode":502,"handleMsg":"job execute timeout "}]}`,
		`[{"logId":7,"handleCode":200,"tickringData":"{\"day\":1}"}]`,
		`[{"logId":"7","handleCode":2e2,"handleMsg":"\ud83d\ude00"},{"logId":null},null]`, `[]`, `{}`, `[{"logId":1`,
		`[{"logId":1,"handleCode":200},{"logId":2,"handleCode":500,"handleMsg":"he said "no" in C:\dir` + "\n" + `"},{"logId":3,"handleCode":200}]`,
		`{"callbackList":[{"logId":1,"executeResult":{"code":500,"msg":"a"b"},"handleCode":500,"handleMsg":"a"b"}]} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := DecodeCallback(body, 100)
		if err != nil && (len(c.Items) > 0 || len(c.Bad) > 0) {
			t.Fatal("an error and items")
		}
		for _, it := range c.Items {
			if it.LogID <= 0 || it.Code <= 0 || it.LogTime < 0 || !utf8.ValidString(it.Msg) || !utf8.ValidString(it.Data) {
				t.Fatalf("unusable: %+v", it)
			}
		}
		if err != nil || len(c.Items) == 0 {
			return
		}
		again, err := DecodeCallback(AppendCallback(nil, DialectGo, c.Items), 0)
		if err != nil || len(again.Items) != len(c.Items) {
			t.Fatalf("again: %v", err)
		}
		for i := range c.Items {
			if again.Items[i] != c.Items[i] {
				t.Fatalf("%+v came back as %+v", c.Items[i], again.Items[i])
			}
		}
	})
}

func FuzzDecodeRegistration(f *testing.F) {
	f.Add([]byte(`{"registryGroup":"EXECUTOR","registryKey":"demo","registryValue":"http://10.0.0.1:9999/"}`))
	f.Add([]byte(`{"registryGroup":null,"registryKey":1,"registryValue":"\u0000"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeRegistration(body)
		if err == nil {
			if again, err := DecodeRegistration(AppendRegistration(nil, r)); err != nil || again != r {
				t.Fatalf("%+v came back as %+v, %v", r, again, err)
			}
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	for _, s := range []string{
		`{"code":200,"msg":null,"content":null,"data":null}`,
		`{"code":500,"msg":["x"],"data":{"fromLineNum":1,"toLineNum":0,"logContent":"","isEnd":false}}`,
		`[{"logId":7,"executeResult":{"code":500,"msg":"Task not registered"}}]`, `<html>`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeReply(body)
		if (err != nil) != (r.Verdict() == VerdictGarbage) {
			t.Fatalf("verdict %v with error %v", r.Verdict(), err)
		}
		if !utf8.ValidString(r.Msg) {
			t.Fatalf("message %q", r.Msg)
		}
		if r.Payload != nil {
			if !json.Valid(r.Payload) {
				t.Fatalf("payload %q", r.Payload)
			}
			_, _ = r.LogResult()
		}
	})
}
