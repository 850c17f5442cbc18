package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	netmail "net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/safedial"
)

// Bounds of a mail, in bytes.
const (
	maxMailText = 16 << 10 // of each of its long texts
	maxRefused  = 4 << 10  // the reasons for rejected addresses
)

// letter formats a message as mail: text and HTML have the same content.
func (s *Sender) letter(ch *core.Channel, m *Message) (*mail.Msg, error) {
	p := pageOf(ch, m, maxMailText)
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := msg.From(ch.Email.From); err != nil {
		return nil, permanent("email.from: %q: not an email address", ch.Email.From)
	}
	if err := msg.To(ch.Email.To...); err != nil {
		return nil, permanent("email.to: one of the addresses is not an email address")
	}
	// It is one line already, but a header must not depend on its source.
	msg.Subject(line(p.subject, maxSubject))
	from, err := netmail.ParseAddress(ch.Email.From)
	if err != nil {
		return nil, permanent("email.from: %q: not an email address", ch.Email.From)
	}
	_, host, _ := strings.Cut(from.Address, "@")
	msg.SetMessageIDWithValue(line(m.ID, maxWord) + "@" + host)
	msg.SetDateWithValue(s.o.Now())
	// RFC 3834: suppresses automatic replies.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, p.text())
	msg.AddAlternativeString(mail.TypeTextHTML, p.html(string(ch.Language)))
	return msg, nil
}

// html is the page as HTML, with styles that mail programs show. It is written by hand and not
// by html/template: with that the linker keeps all of the AWS SDK in the functions.
func (p page) html(language string) string {
	var b strings.Builder
	put := func(format string, texts ...string) {
		escaped := make([]any, len(texts))
		for i, text := range texts {
			escaped[i] = html.EscapeString(text)
		}
		fmt.Fprintf(&b, format+"\n", escaped...)
	}
	put(`<!DOCTYPE html>`)
	put(`<html lang="%s"><head><meta charset="utf-8"><title>%s</title></head>`, language, p.subject)
	put(`<body style="margin:0;padding:16px;background:#f4f5f7;font-family:-apple-system,'Segoe UI',Roboto,'Noto Sans SC','Microsoft YaHei',` +
		`sans-serif;color:#1c1e21"><div style="max-width:640px;margin:0 auto;background:#fff;border:1px solid #dfe1e6;border-radius:6px;padding:20px">`)
	put(`<h1 style="font-size:18px;margin:0 0 8px">%s</h1>`, p.subject)
	put(`<p style="margin:0 0 16px;line-height:1.5">%s</p>`, p.sentence)
	put(`<table style="border-collapse:collapse;font-size:14px">`)
	for _, f := range p.facts {
		put(`<tr><th style="text-align:left;vertical-align:top;padding:4px 12px 4px 0;color:#5e6c84;font-weight:normal">%s</th>`+
			`<td style="padding:4px 0;white-space:pre-wrap;word-break:break-word">%s</td></tr>`, f.Label, f.Value)
	}
	put(`</table>`)
	if p.lines != "" {
		put(`<p style="margin:16px 0 4px;font-size:14px;color:#5e6c84">%s</p>`, p.label)
		put(`<pre style="margin:0;padding:10px;background:#1c1e21;color:#e4e6eb;border-radius:4px;font-size:12px;line-height:1.4;`+
			`white-space:pre-wrap;word-break:break-word">%s</pre>`, p.lines)
	}
	if strings.HasPrefix(p.link, "https://") || strings.HasPrefix(p.link, "http://") {
		put(`<p style="margin:16px 0 0"><a href="%s" style="color:#0b5cad">%s</a></p>`, p.link, p.open)
	}
	put(`</div></body></html>`)
	return b.String()
}

// mail sends a message by SMTP. If the server rejects some of the addresses, the others get it.
func (s *Sender) mail(ctx context.Context, ch *core.Channel, m *Message) error {
	msg, err := s.letter(ch, m)
	if err != nil {
		return err
	}
	at := net.JoinHostPort(ch.Email.SMTP.Host, strconv.Itoa(ch.Email.SMTP.Port))
	var conn net.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	client, err := s.client(ctx, ch, func(c net.Conn) {
		conn = c
		context.AfterFunc(ctx, func() { c.Close() }) // at once, whatever waits on it
	})
	if err != nil {
		return err
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return unmailed(ctx, ch, at, "", err)
	}
	from, err := msg.GetSender(false)
	if err != nil {
		return fmt.Errorf("write the mail: %w", err)
	}
	if err := session.Mail(from); err != nil {
		return unmailed(ctx, ch, at, "MAIL FROM "+from, err)
	}
	to, err := msg.GetRecipients()
	if err != nil {
		return fmt.Errorf("write the mail: %w", err)
	}
	var refused []*core.Undelivered
	for _, address := range to {
		if err := session.Rcpt(address); err != nil {
			refused = append(refused, unmailed(ctx, ch, at, "RCPT TO "+address, err))
		}
	}
	if len(refused) == len(to) {
		// If one address can be accepted later, all of them are retried.
		return refused[max(slices.IndexFunc(refused, func(u *core.Undelivered) bool { return !u.Permanent }), 0)]
	}
	if err := data(session, msg); err != nil {
		return unmailed(ctx, ch, at, "DATA", err)
	}
	_ = session.Quit() // the server already has the mail
	if len(refused) > 0 {
		// Permanent, because a retry would send a second copy to the other addresses.
		var whys []string
		for _, u := range refused {
			whys = append(whys, u.Reason)
		}
		return permanent("%d of %d addresses were rejected, and the other addresses got the mail: %s", len(refused), len(to),
			clean(strings.Join(whys, "; "), maxRefused))
	}
	return nil
}

func data(session *smtp.Client, msg *mail.Msg) error {
	w, err := session.Data()
	if err != nil {
		return err
	}
	if _, err := msg.WriteTo(w); err != nil {
		return err
	}
	return w.Close()
}

// client creates a client of the channel's SMTP server. It calls opened with its connection.
func (s *Sender) client(ctx context.Context, ch *core.Channel, opened func(net.Conn)) (*mail.Client, error) {
	of := &ch.Email.SMTP
	trust := s.tls.Clone()
	if trust == nil {
		trust = &tls.Config{}
	}
	trust.ServerName, trust.MinVersion = of.Host, tls.VersionTLS12
	end, _ := ctx.Deadline()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := s.o.Policy.Dialer(0).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := &bounded{Conn: raw, end: end, left: maxSaid}
		opened(conn)
		if err := conn.SetDeadline(end); err != nil {
			return nil, err
		}
		if of.TLS != core.TLSImplicit {
			return conn, nil
		}
		secure := tls.Client(conn, trust)
		return secure, secure.HandshakeContext(ctx)
	}
	options := []mail.Option{mail.WithPort(of.Port), mail.WithTimeout(max(time.Until(end), time.Millisecond)), mail.WithTLSConfig(trust),
		mail.WithDialContextFunc(dial), mail.WithoutNoop()}
	switch of.TLS {
	case core.TLSImplicit:
		options = append(options, mail.WithSSL())
	case core.TLSNone:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if of.User != "" {
		// In clear they are sent over TLS alone: core.Channel.Validate.
		options = append(options, mail.WithUsername(of.User), mail.WithPassword(of.Password),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthSCRAMSHA1, mail.SMTPAuthPlain, mail.SMTPAuthLogin,
				mail.SMTPAuthCramMD5))
	}
	client, err := mail.NewClient(of.Host, options...)
	if err != nil {
		return nil, permanent("email.smtp: %v", err)
	}
	return client, nil
}

// bounded is a connection with a final deadline and a limit on the bytes read. The library sets its own deadline for each step,
// which must not pass the final one. It also keeps a line of any length.
type bounded struct {
	net.Conn
	end  time.Time
	left int
}

// maxSaid limits the bytes read from an SMTP server in all.
const maxSaid = 256 << 10

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

var errTooMuch = errors.New("the SMTP server sent too much data")

func (b *bounded) SetDeadline(t time.Time) error {
	if t.IsZero() || t.After(b.end) {
		t = b.end
	}
	return b.Conn.SetDeadline(t)
}

// unmailed is why an SMTP server did not take a mail, at a step.
func unmailed(ctx context.Context, ch *core.Channel, at, step string, err error) *core.Undelivered {
	u := &core.Undelivered{Err: err, Permanent: errors.Is(err, safedial.ErrNotAllowed)}
	why := hide(ch, clean(err.Error(), maxWord))
	answer, said := errors.AsType[*textproto.Error](err)
	timeout, _ := errors.AsType[net.Error](err)
	end, ends := ctx.Deadline()
	over := ctx.Err() != nil || ends && !time.Now().Before(end) // the connection may feel it before ctx does, and half a line looks whole
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case said:
		u.Permanent = answer.Code >= 500
		// Not as Error has it, whose quotes and escapes could keep a secret from being found.
		why = strings.TrimSpace(fmt.Sprintf("answered %d %s", answer.Code, line(hide(ch, clean(answer.Msg, 4*maxWord)), maxWord)))
		if answer.Code == 535 || answer.Code == 534 {
			why += "; check user and password"
		}
	case over, timeout != nil && timeout.Timeout():
		why = "did not answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		why = "closed the connection"
	case plain:
		u.Permanent, why = true, "does not start with TLS: use tls: starttls if the server starts with SMTP, as on port 587"
	case strings.Contains(why, "does not support STARTTLS"):
		u.Permanent, why = true, "does not support STARTTLS: use tls: implicit if the server starts with TLS, as on port 465"
	case strings.Contains(why, "does not support SMTP AUTH"):
		u.Permanent, why = true, "requires no login: leave out user and password"
	default:
		if _, wrong := errors.AsType[textproto.ProtocolError](err); wrong {
			why = "does not speak SMTP: " + why
		}
	}
	if step != "" {
		step += ": "
	}
	u.Reason = at + ": " + step + why
	return u
}
