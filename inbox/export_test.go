package inbox

var (
	EncodeHeaders = encodeHeaders
	DecodeHeaders = decodeHeaders
	NotCommitted  = notCommitted
)
