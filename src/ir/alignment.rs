//! What a block asks of the strides of the buffers that it writes.
//!
//! A block may be annotated `buffer_dim_align` with a list of requests `[buffer, axis, factor, offset]`: the stride of
//! that axis, of the buffer at that index of the block's writes, is to be `k * factor + offset`, in elements. This is how
//! the rows of a buffer come to begin at the lines of the cache, or to avoid its sets (TVM's `storage_align`).

use super::attr::AttrValue;

/// The annotation of blocks that holds the requests.
pub(crate) const DIM_ALIGN: &str = "buffer_dim_align";

/// A request about one axis of one buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DimAlign {
    /// The buffer's index among the block's writes.
    pub buffer: i64,
    /// The axis whose stride is meant.
    pub axis: i64,
    /// The stride is a multiple of this, in elements, ...
    pub factor: i64,
    /// ... and so many elements more.
    pub offset: i64,
}

impl DimAlign {
    /// The requests that an annotation holds; `None` if it is no list of requests.
    pub(crate) fn read(annotation: &AttrValue) -> Option<Vec<Self>> {
        let AttrValue::List(requests) = annotation else { return None };
        requests.iter().map(Self::read_one).collect()
    }

    fn read_one(request: &AttrValue) -> Option<Self> {
        let AttrValue::List(fields) = request else { return None };
        let [buffer, axis, factor, offset] = &fields[..] else { return None };
        Some(Self {
            buffer: buffer.as_int()?,
            axis: axis.as_int()?,
            factor: factor.as_int()?,
            offset: offset.as_int()?,
        })
    }

    /// The annotation that holds the requests.
    pub(crate) fn write(requests: &[Self]) -> AttrValue {
        let fields = |r: &Self| [r.buffer, r.axis, r.factor, r.offset].map(AttrValue::Int).to_vec();
        AttrValue::List(requests.iter().map(|r| AttrValue::List(fields(r))).collect())
    }

    /// The least stride, of `stride` or above, that the request allows; `None` if it overflows or the request has no
    /// positive factor.
    pub(crate) fn round_up(&self, stride: i64) -> Option<i64> {
        if self.factor <= 0 {
            return None;
        }
        stride.checked_add(self.offset.checked_sub(stride)?.rem_euclid(self.factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_rounded_up_to_what_is_asked() {
        let request = |factor, offset| DimAlign { buffer: 0, axis: 0, factor, offset };
        assert_eq!(request(16, 0).round_up(58), Some(64));
        assert_eq!(request(16, 0).round_up(64), Some(64));
        assert_eq!(request(32, 8).round_up(33), Some(40));
        assert_eq!(request(32, 8).round_up(41), Some(72));
        assert_eq!(request(32, -24).round_up(33), Some(40));
        assert_eq!(request(0, 0).round_up(3), None);
        assert_eq!(request(16, i64::MIN).round_up(3), None);
    }

    #[test]
    fn only_lists_of_requests_are_read() {
        let requests = [DimAlign { buffer: 0, axis: 1, factor: 32, offset: 8 }];
        assert_eq!(DimAlign::read(&DimAlign::write(&requests)).as_deref(), Some(&requests[..]));
        assert_eq!(DimAlign::read(&AttrValue::Int(3)), None);
        assert_eq!(DimAlign::read(&AttrValue::List(vec![AttrValue::List(vec![AttrValue::Int(0)])])), None);
    }
}
