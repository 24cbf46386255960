//! The constants that TVM prints in front of a module: `metadata = tvm.ir.load_json("…")`.
//!
//! The text is a graph of TVM's objects in JSON. Each constant tensor is in base64, in the form in which TVM saves arrays: a
//! magic number, the device, the type, the extents, the elements.

use crate::graph::Constant;
use crate::ir::DType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The first word of a saved array.
const MAGIC: u64 = 0xdd5e_40f0_96b4_a13f;

/// The constants of a text, in their order.
pub(super) fn constants(text: &str) -> Result<Vec<Constant>, String> {
    let json: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let nodes = json["nodes"].as_array().ok_or("there is no list `nodes`")?;
    let root = json.get("root_index").or_else(|| json.get("root")).and_then(Value::as_u64);
    let node = |i: &Value| i.as_u64().and_then(|i| nodes.get(usize::try_from(i).ok()?)).ok_or("a node is missing");
    let root = node(&Value::from(root.ok_or("there is no root")?))?;
    if let Some(blobs) = json["b64ndarrays"].as_array() {
        return older(root, nodes, blobs);
    }
    // The root maps kinds of objects to lists of them: keys and values by turns.
    let items = root["data"].as_array().ok_or("the root is no map")?;
    let mut found = Vec::new();
    for pair in items.chunks(2) {
        let [key, list] = pair else { return Err("the root is no map".to_owned()) };
        let key = node(key)?["data"].as_str().unwrap_or_default();
        if !matches!(key, "ir.GenericConst" | "relax.expr.Constant") {
            continue;
        }
        for constant in node(list)?["data"].as_array().ok_or("no list of constants")? {
            let fields = &node(constant)?["data"];
            let tensor = node(if fields["value"].is_null() { &fields["data"] } else { &fields["value"] })?;
            found.push(array(tensor["data"].as_str().ok_or("a constant has no elements")?)?);
        }
    }
    Ok(found)
}

/// The form of TVM before 0.21, whose arrays are in a list of their own.
fn older(root: &Value, nodes: &[Value], blobs: &[Value]) -> Result<Vec<Constant>, String> {
    let index = |v: &Value| {
        let i = v.as_u64().or_else(|| v.as_str().and_then(|s| s.parse().ok()));
        i.and_then(|i| usize::try_from(i).ok()).ok_or("no index")
    };
    let mut found = Vec::new();
    let lists = root["data"].as_array().ok_or("the root is no map")?;
    for list in lists {
        let list = nodes.get(index(list)?).ok_or("a node is missing")?;
        for constant in list["data"].as_array().into_iter().flatten() {
            let constant = nodes.get(index(constant)?).ok_or("a node is missing")?;
            if constant["type_key"] != "relax.expr.Constant" {
                continue;
            }
            let tensor = nodes.get(index(&constant["attrs"]["data"])?).ok_or("a node is missing")?;
            let blob = blobs.get(index(&tensor["repr_str"]).or_else(|_| index(&constant["attrs"]["data"]))?);
            found.push(array(blob.and_then(Value::as_str).ok_or("an array is missing")?)?);
        }
    }
    Ok(found)
}

/// An array in base64.
fn array(text: &str) -> Result<Constant, String> {
    let bytes = STANDARD.decode(text).map_err(|e| e.to_string())?;
    let mut rest = &bytes[..];
    let mut word = |n: usize| -> Result<u64, String> {
        let (head, tail) = rest.split_at_checked(n).ok_or("an array is cut short")?;
        rest = tail;
        let mut wide = [0; 8];
        wide[..n].copy_from_slice(head);
        Ok(u64::from_le_bytes(wide))
    };
    if word(8)? != MAGIC {
        return Err("an array has another form".to_owned());
    }
    for reserved in [8, 4, 4] {
        word(reserved)?;
    }
    let rank = word(4)?;
    let (code, bits, lanes) = (word(1)?, word(1)?, word(2)?);
    let name = match code {
        0 => "int",
        1 => "uint",
        2 => "float",
        4 => "bfloat",
        6 => "bool",
        _ => return Err(format!("the type {code} of an array is not supported")),
    };
    let name = if (code, bits) == (1, 1) || code == 6 { "bool".to_owned() } else { format!("{name}{bits}") };
    let dtype: DType = name.parse().map_err(|_| format!("the type {name} of an array is not supported"))?;
    if lanes != 1 || rank > 32 {
        return Err("an array has another form".to_owned());
    }
    let shape: Vec<i64> = (0..rank).map(|_| word(8).map(|n| n as i64)).collect::<Result<_, _>>()?;
    word(8)?;
    Constant::new(dtype, &shape, rest.to_vec())
        .ok_or_else(|| format!("an array of shape {shape:?} has {} bytes", rest.len()))
}

/// Constants in the form that [`constants`] reads.
pub(super) fn json(all: &[&Constant]) -> String {
    use serde_json::json;
    let mut nodes = vec![
        json!({"type": "ffi.String", "data": "ir.GenericConst"}),
        json!({"type": "None"}),
        json!({"type": "ir.PrimType", "data": {"span": 1, "dtype": "int64"}}),
    ];
    let mut add = |node: Value| {
        nodes.push(node);
        nodes.len() - 1
    };
    let mut list = Vec::new();
    for constant in all {
        let rank = constant.shape().len();
        let mut extents = Vec::new();
        for &n in constant.shape() {
            let value = add(json!({"type": "int", "data": n}));
            extents.push(add(json!({"type": "ir.IntImm", "data": {"span": 1, "ty": 2, "value": value}})));
        }
        let extents = add(json!({"type": "ffi.Array", "data": extents}));
        let shape_ty = add(json!({"type": "relax.ShapeType", "data": {"span": 1, "values": extents, "ndim": rank}}));
        let shape =
            add(json!({"type": "relax.expr.ShapeExpr", "data": {"span": 1, "ty": shape_ty, "values": extents}}));
        let dtype = constant.dtype().to_string();
        let prim = add(json!({"type": "ir.PrimType", "data": {"span": 1, "dtype": dtype}}));
        let ty = add(json!({"type": "relax.TensorType",
            "data": {"span": 1, "shape": shape, "dtype": prim, "vdevice": 1, "ndim": rank}}));
        let tensor = add(json!({"type": "ffi.Tensor", "data": saved(constant)}));
        list.push(add(json!({"type": "ir.GenericConst", "data": {"span": 1, "ty": ty, "value": tensor}})));
    }
    let list = add(json!({"type": "ffi.Array", "data": list}));
    let root = add(json!({"type": "ffi.Map", "data": [0, list]}));
    // The writer cannot fail on values made here.
    serde_json::to_string(&json!({"root_index": root, "nodes": nodes})).unwrap_or_default()
}

/// An array in the form in which TVM saves it, in base64.
fn saved(constant: &Constant) -> String {
    let dtype = constant.dtype();
    let code: u8 = match dtype {
        DType::Bool => 6,
        DType::BFloat16 => 4,
        t if t.is_float() => 2,
        t if t.is_uint() => 1,
        _ => 0,
    };
    let bits = if dtype == DType::Bool { 8 } else { dtype.bits() as u8 };
    let mut bytes = Vec::with_capacity(constant.data().len() + 64);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend((constant.shape().len() as u32).to_le_bytes());
    bytes.extend([code, bits, 1, 0]);
    constant.shape().iter().for_each(|n| bytes.extend(n.to_le_bytes()));
    bytes.extend((constant.data().len() as u64).to_le_bytes());
    bytes.extend(constant.data());
    STANDARD.encode(&bytes)
}
