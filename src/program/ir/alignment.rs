//! Alignment requests: constraints of a block on the strides of the buffers that it writes.
//!
//! The annotation `buffer_dim_align` of a block is a list of requests `[buffer, axis, factor, offset]`: the stride of
//! axis `axis` of the `buffer`-th written buffer must be `k * factor + offset` elements for some `k`. Requests make the
//! rows of a buffer start at cache lines, or avoid conflicts of cache sets (TVM's `storage_align`).

use super::attr::AttrValue;

/// The annotation of blocks that holds the requests.
pub const DIM_ALIGN: &str = "buffer_dim_align";

/// A request about one axis of one buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DimAlign {
    /// Index of the buffer among the block's writes.
    pub buffer: i64,
    /// The axis whose stride is constrained.
    pub axis: i64,
    /// The stride minus `offset` must be a multiple of this number of elements.
    pub factor: i64,
    /// Elements by which the stride exceeds a multiple of `factor`.
    pub offset: i64,
}

impl DimAlign {
    /// The requests in an annotation; `None` if it is not a list of requests.
    pub fn read(annotation: &AttrValue) -> Option<Vec<Self>> {
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

    /// The annotation with these requests.
    pub fn write(requests: &[Self]) -> AttrValue {
        let fields = |r: &Self| [r.buffer, r.axis, r.factor, r.offset].map(AttrValue::Int).to_vec();
        AttrValue::List(requests.iter().map(|r| AttrValue::List(fields(r))).collect())
    }

    /// The least stride, not below `stride`, that the request allows; `None` on overflow or if the factor is not
    /// positive.
    pub fn round_up(&self, stride: i64) -> Option<i64> {
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
